"""What a cycle, a person and a report are. Values and decisions; no row is read here."""
