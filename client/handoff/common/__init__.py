"""The only code that client and daemon share. It is light: the hot path loads a part of it."""
