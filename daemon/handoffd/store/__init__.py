"""SQLite: core.db, which cannot be rebuilt, and state.db, which can, from transcripts.

May import: config, fs, runtime. No other package contains SQL.
"""
