"""The main job whole, from a people file to delivered mails, on a database of its own.

place.py says where, story.py what happens, relay.py who delivers, figures.py whether it
adds up, and command.py shows it. Nothing here is simulated but the receiving mailboxes.
"""
