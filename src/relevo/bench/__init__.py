"""Measure how fast jobs go in and out of a database, beside a raw loop of the same kind.

`relevo bench` and the project's own benchmarks stand on this room. It only ever touches jobs of
its own queue and a scratch schema of its own, and it judges nothing: it counts and times.
"""
