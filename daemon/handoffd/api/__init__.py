"""What answers: the socket with one handler file per method, MCP, and HTTP.

May import everything but app and offline.
"""
