"""Campaigns: faults at random under load, as many as a figure asks for.

Every fault is real: a signal to a process, a cut of a backend, an end of a server. Whether
it broke a promise is asked of the checker, after the faults have stopped and all has settled.
"""
