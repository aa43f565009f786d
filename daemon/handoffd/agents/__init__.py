"""One package per coding agent: the place of its transcripts and the meaning of a record.

Events and test runs are common to all agents. May import: store, links, and below.
"""
