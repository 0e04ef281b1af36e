"""Other systems and libraries, each behind an extra of its own."""
