"""The client without a daemon: it runs the daemon's handlers in its own process.

May import everything but app.
"""
