"""SQLite: core.db, which nobody can rebuild, and state.db, which transcripts can.

May import: config, fs, runtime. No SQL stands anywhere else.
"""
