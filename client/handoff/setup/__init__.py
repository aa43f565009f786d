"""What `handoff setup` puts into Claude Code and around it, and `handoff teardown` takes out.

A part edits drafts of files and adds actions to a plan; nothing is touched before the plan is
whole, was shown and was agreed to.
"""
