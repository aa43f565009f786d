"""Counters of the reading so far; the counts of a slice that could not be stored are undone."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    records: int = 0
    damaged: int = 0
    oversized: int = 0
    repeated: int = 0
    replaced: int = 0
    redacted: int = 0
    silenced: int = 0
    last_record_at: float = 0.0
