"""What the application says to its tables: named statements and one typed file beside each.

`dispatch` and `status` name the engine's table of jobs, for rows of this application's own
kind only; `listing` reads why the engine's queue of mails rests.
"""
