"""The handoff that a session leaves behind: one markdown file per session.

May import: ingest, projects, and below.
"""
