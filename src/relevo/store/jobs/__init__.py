"""What we say about relevo.jobs: one file for each question, the statements beside it."""
