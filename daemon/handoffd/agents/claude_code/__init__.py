"""Claude Code: its transcripts, its own files, and the meaning of each record.

The parsing modules are pure.
"""
