"""What fires: one file per trigger, the detector, and which sessions are idle or over.

May import: tracks, contract, and below.
"""
