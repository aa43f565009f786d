"""Track records: one section of a track of work, made and resumed in steps.

The documents are pure; conductor_directory.py brings them to disk. May import: contract, and below.
"""
