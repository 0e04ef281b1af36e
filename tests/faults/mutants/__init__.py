"""Seeded faults of the engine, each to be named by the checker: the control of all figures."""
