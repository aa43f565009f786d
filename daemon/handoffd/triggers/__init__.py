"""Fire triggers: one file per trigger, the detector, and the liveness of sessions.

May import: tracks, contract, and below.
"""
