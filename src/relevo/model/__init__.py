"""What things are: frozen values and pure decisions, without input or output."""
