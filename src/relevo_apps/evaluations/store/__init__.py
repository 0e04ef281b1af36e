"""What the application says to its tables: named statements and one typed file beside each.

`notifications` names the engine's table, through its documented interface: an INSERT
that does nothing on a conflict, and updates of rows of this application's own kind.
"""
