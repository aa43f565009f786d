"""Forgetting on request and by age, and which transcripts are about to be deleted.

May import: context, and below.
"""
