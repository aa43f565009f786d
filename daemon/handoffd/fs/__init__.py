"""Files: the only writer, atomic replacement, and disks that may not answer.

May import: runtime, and below.
"""
