"""The migrations of the line `evaluations`, and of its guard on the engine's jobs."""
