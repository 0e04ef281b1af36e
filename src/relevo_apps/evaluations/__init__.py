"""Evaluation cycles: an application on relevo's public names.

People are imported from a file, a cycle is prepared in draft, and one transaction
activates the cycle, its evaluations and one notification per evaluator together.
Nothing here delivers inside the request that activates.
"""
