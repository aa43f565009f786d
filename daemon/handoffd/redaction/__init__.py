"""Finds and masks secrets in texts. Pure; imports no other package of the daemon."""
