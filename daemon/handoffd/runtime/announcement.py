"""A change that is announced once, to every part that subscribed to it (in app.py)."""

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Announcement(Generic[P]):
    """Calls its subscribers in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[P, None]] = []

    def subscribe(self, subscriber: Callable[P, None]) -> None:
        self._subscribers.append(subscriber)

    def announce(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for subscriber in self._subscribers:
            subscriber(*args, **kwargs)
