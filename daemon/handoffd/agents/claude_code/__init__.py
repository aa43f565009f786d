"""Claude Code: its transcripts, its own files, and what each record means.

The modules that parse are pure.
"""
