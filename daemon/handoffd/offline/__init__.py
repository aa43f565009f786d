"""The commands that work without a daemon, in the client's own process.

May import everything but app.
"""
