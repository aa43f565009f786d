"""Events to a session's state, and insights from it, each with its receipt. Pure.

May import: agents, redaction.
"""
