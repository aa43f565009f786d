"""Answer requests: over the socket, with one handler file per method, over MCP and over HTTP.

May import everything but app and offline.
"""
