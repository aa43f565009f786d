"""`handoff mcp`: standard input and output <-> the daemon's socket."""
