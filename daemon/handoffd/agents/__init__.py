"""Coding agents, one package each: where their transcripts lie and what a record means.

Events and test runs are common to all of them. May import: store, links, and below.
"""
