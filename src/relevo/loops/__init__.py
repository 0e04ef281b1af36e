"""Who keeps it going: loops that wait, repeat and wake. No table is named here."""
