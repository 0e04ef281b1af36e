"""`relevo doctor`: check everything that delivery rests on, and say what to do."""
