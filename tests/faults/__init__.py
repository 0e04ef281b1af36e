"""Try everything that can go wrong, and check what is left: nothing lost, nothing twice.

`evidence` collects what happened, `checker` judges it without a database or a clock, and
the other rooms make things go wrong. `python -m faults` prints the figures.
"""
