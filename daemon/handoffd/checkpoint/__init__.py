"""The state of a project as a file: <project>/.flow-guardian/handoff.yaml.

Model and rendering are pure; the reader takes over a person's edits, the writer keeps the file
current. May import: ingest, projects, and below.
"""
