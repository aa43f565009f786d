"""Forget on request and by age, and find the transcripts that Claude Code will delete soon.

May import: context, and below.
"""
