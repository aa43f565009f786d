"""Find and mask secrets in text. Pure; imports nothing of the daemon."""
