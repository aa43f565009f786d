"""The services of one process: clock, log, lock, service manager, schedule.

May import: redaction.
"""
