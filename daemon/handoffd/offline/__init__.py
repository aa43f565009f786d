"""The client without a daemon: runs the daemon's handlers, and what only such a client needs.

May import everything but app.
"""
