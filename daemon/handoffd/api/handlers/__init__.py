"""One file per method of the socket."""
