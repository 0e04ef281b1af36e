"""Fail at every statement boundary in four ways, and check what is left.

`points` is the driver boundary, `ways` are the failures, `scenarios` what is interrupted, and
`enumerate` goes through all of them and holds the list against what the server logged.
"""
