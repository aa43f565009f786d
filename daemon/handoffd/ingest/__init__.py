"""Notice and read new lines of transcripts; the rescan is the truth, a watch is only a hint.

May import: projects, session, and below.
"""
