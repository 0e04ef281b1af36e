"""Seeded faults of the engine, each to be named by the checker: the negative control of all figures."""
