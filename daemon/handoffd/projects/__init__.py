"""Which project a directory belongs to, what may be learned of it, and its current state.

May import: session, and below.
"""
