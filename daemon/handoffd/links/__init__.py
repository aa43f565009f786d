"""Calls to other programs: git, Beads, Agent Mail, the desktop. Every call is bounded in time.

May import: config, fs, runtime, redaction.
"""
