"""Handle the hooks of sessions, and compose the briefs that are printed into them.

May import: triggers, the forms, and below.
"""
