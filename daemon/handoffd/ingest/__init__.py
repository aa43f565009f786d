"""Notices and reads what is new in transcripts; the rescan is the truth, a watch is a hint.

May import: projects, session, and below.
"""
