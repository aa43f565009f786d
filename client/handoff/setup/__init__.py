"""The code of `handoff setup`, which puts us into Claude Code, and of `handoff teardown`.

A part of setup edits drafts of files and adds actions to a plan. Nothing is touched before the
plan is complete, was shown and was agreed to.
"""
