"""What a session is told and when, and what its hooks report.

May import: triggers, the forms, and below.
"""
