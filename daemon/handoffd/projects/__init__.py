"""Find the project of a directory, decide whether it may be read, and keep its current state.

May import: session, and below.
"""
