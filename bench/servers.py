"""MCP servers over stdio, ours and others', and the nearest tools of each for the same story."""

import json
from collections import defaultdict
from dataclasses import dataclass, field

import peers
from rpc import Session
from world import BIN, World

Call = tuple[str, dict[str, str]]


def said(number: int) -> str:
    return (
        f"Decision {number}: the cart is read again after a reload, from the store and not from "
        "the cookie, since the cookie is set after the first answer. Tried before: reading it "
        "twice, which lost what was added in between. Next: compare both, then drop the old way."
    )


@dataclass
class Server:
    """A server in a HOME of its own, and its measurements.

    A created thread is found again by its key.
    """

    world: World
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tools_bytes: int = 0
    memory: tuple[int, int] = (0, 0)
    name = ""

    def __post_init__(self) -> None:
        self.directory = str(self.world.project("shop", git=True))
        self.words = self.command()

    def open(self) -> Session:
        return Session(self.words, self.world.environment, self.directory)

    def rest(self) -> None:
        """Make everything as it was before the session."""

    def converse(self, session: Session, number: int) -> tuple[float, float, float]:
        """Create, add and get, which must show the added entry; return the time of each."""
        created, answer = session.call(*self.create(number))
        key = self.key(number, answer)
        added, _ = session.call(*self.add(key, number + 1))
        got, answer = session.call(*self.get(key))
        if f"Decision {number + 1}:" not in answer:
            raise RuntimeError(f"{self.name} did not read what was written: {answer[:200]}")
        return created, added, got

    def command(self) -> list[str]:
        raise NotImplementedError

    def create(self, number: int) -> Call:
        raise NotImplementedError

    def key(self, number: int, answer: str) -> str:
        raise NotImplementedError

    def add(self, key: str, number: int) -> Call:
        raise NotImplementedError

    def get(self, key: str) -> Call:
        raise NotImplementedError


class Ours(Server):
    """A thread, by the id that its creation answers; as the plugin starts it."""

    name = "handoffd"

    def command(self) -> list[str]:
        return [str(BIN / "handoff"), "mcp", "--client", "code"]

    def create(self, number: int) -> Call:
        return "create_handoff", {"title": f"The cart, {number}", "content": said(number)}

    def key(self, _number: int, answer: str) -> str:
        return json.loads(answer)["handoff"]["id"]

    def add(self, key: str, number: int) -> Call:
        return "add_to_handoff", {"id": key, "type": "progress", "content": said(number)}

    def get(self, key: str) -> Call:
        return "get_handoff", {"id": key}


class OursDown(Ours):
    """No daemon is running: the relay starts one, which is ended after the session."""

    name = "handoffd, down"

    def rest(self) -> None:
        self.world.stop()


class AiHandoff(Server):
    """One memory per directory; every save is an entry of it, and the last one is read."""

    name = "ai-handoff"

    def command(self) -> list[str]:
        return [str(peers.programs(self.name) / "handoff"), "serve"]

    def create(self, number: int) -> Call:
        given = {"summary": said(number), "next_actions": "Compare both.", "agent": "claude-code"}
        return "memory_save", {"project_path": self.directory, **given}

    def key(self, _number: int, _answer: str) -> str:
        return self.directory

    def add(self, _key: str, number: int) -> Call:
        return self.create(number)

    def get(self, key: str) -> Call:
        return "memory_get", {"project_path": key}


class HandoffMcp(Server):
    """One brief per project, which is a name; with a new name a new one begins."""

    name = "handoff-mcp"

    def command(self) -> list[str]:
        return [str(peers.programs(self.name) / "handoff-mcp")]

    def create(self, number: int) -> Call:
        return self.add(self.key(number, ""), number)

    def key(self, number: int, _answer: str) -> str:
        return f"cart-{number}"

    def add(self, key: str, number: int) -> Call:
        return "log_event", {"type": "decision", "content": said(number), "project": key}

    def get(self, key: str) -> Call:
        return "get_brief", {"project": key}
