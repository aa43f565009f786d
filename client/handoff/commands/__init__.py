"""One file per command, named like the command."""
