"""Report what happened: log lines that carry whose work it was."""
