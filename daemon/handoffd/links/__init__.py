"""Other programs: git, Beads, Agent Mail, the desktop; every call is bounded in time.

May import: config, fs, runtime, redaction.
"""
