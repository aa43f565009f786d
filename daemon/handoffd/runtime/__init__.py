"""What a process needs: clock, log, lock, service manager, schedule.

May import: redaction.
"""
