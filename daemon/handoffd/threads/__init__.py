"""Conversations between Chat and Code: the rules, the texts, and the HTTP listener.

May import: ingest, projects, and below.
"""
