"""The only code that the client and the daemon share. Light: the hot path loads part of it."""
