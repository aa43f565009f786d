"""Track records: one section of a track of work, created and resumed in steps.

The documents are pure; conductor_directory.py does the I/O. May import: contract, and below.
"""
