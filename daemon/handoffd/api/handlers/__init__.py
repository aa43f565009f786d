"""One file a method, named as the client's command."""
