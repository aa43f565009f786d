"""Finds and masks secrets in texts. Pure; imports nothing of the daemon."""
