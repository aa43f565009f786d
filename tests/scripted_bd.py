"""A stand-in for the program of Beads: both lines and `br`, healthy or failing in one way.

It is ours from the first line, answers handoffd's questions, and keeps its issues where the real
ones do, so that the same tests run against it and against them.
"""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

# Version, whether it knows --append-notes, whether it answers in an envelope.
SHAPES = {
    "classic": ("0.47.1", False, False),
    "current": ("1.0.5", True, False),
    "envelope": ("2.0.0", True, True),
    "br": ("", False, False),
}
MODES = ("well", "hang", "slow", "exit 1", "garbage", "huge", "child", "lost answer")
JOURNAL = "embeddeddolt/beads/.dolt/noms/" + "v" * 32


def install(directory: Path, shape: str = "current", mode: str = "well", name: str = "bd") -> Path:
    """Put such a program into a directory; every call of it is noted beside it."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text(
        f"#!{sys.executable} -I\n"
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import scripted_bd\nscripted_bd.main({shape!r}, {mode!r}, {str(directory / 'calls')!r})\n"
    )
    program.chmod(0o755)
    return program


def calls(program: Path) -> list[dict]:
    """Return the calls of a program: its words and its environment."""
    path = program.parent / "calls"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(shape: str, mode: str, log: str) -> None:
    words = sys.argv[1:]
    with Path(log).open("a") as stream:
        entry = {"words": words, "environment": dict(os.environ), "cwd": os.getcwd()}
        stream.write(json.dumps(entry) + "\n")
    version, appends, envelope = SHAPES[shape]
    if "--help" in words:
        print("--notes string" + ("\n--append-notes string" if appends else ""))
    elif words[:1] == ["version"]:
        print(json.dumps({"version": version}) if version else "br 0.1")
    else:
        _misbehave(mode)
        _answer(Store(shape), words, envelope, mode)


def _misbehave(mode: str) -> None:
    if mode == "hang":
        time.sleep(600)
    elif mode == "slow":
        time.sleep(1)
    elif mode == "exit 1":
        print("Error: failed to open database: locked", file=sys.stderr)
        sys.exit(1)
    elif mode == "garbage":
        print("\x00{[[\xff not json at all")
        sys.exit(0)
    elif mode == "huge":
        sys.stdout.write("[" + "x" * (40 << 20))
        sys.exit(0)
    elif mode == "child":
        subprocess.Popen(["/bin/sleep", "600"])


def _answer(store: "Store", words: list[str], envelope: bool, mode: str) -> None:
    words = [word for word in words if word != "--json"]
    try:
        found = store.do(*words)
    except KeyError as missing:
        print(f"Error fetching {missing}: no issue found matching {missing}", file=sys.stderr)
        sys.exit(0 if store.classic else 1)
    if mode == "lost answer" and words[0] == "update":
        time.sleep(600)
    print(json.dumps({"schema_version": 1, "data": found} if envelope else found))


class Store:
    """The issues of the directory that BEADS_DIR names, or of the one here."""

    def __init__(self, shape: str):
        self.classic = shape in ("classic", "br")
        directory = Path(os.environ.get("BEADS_DIR") or ".beads")
        self.lines = Path(os.environ.get("BEADS_JSONL") or directory / "issues.jsonl")
        self.path = directory / ("beads.db" if self.classic else JOURNAL)
        text = self.path.read_text() if self.path.exists() else ""
        parsed = map(json.loads, filter(None, text.split("\n")))
        self.issues = {issue["id"]: issue for issue in parsed}

    def do(self, command: str, *words: str):
        method = getattr(self, f"do_{command}")
        found = method(*words)
        if self.classic and command != "init":
            self.path.touch()  # the real one writes to its database also when it only reads
        return found

    def do_init(self, *_words: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()

    def do_create(self, title: str, *words: str) -> dict:
        given = dict(zip(words[::2], words[1::2], strict=True))
        parent = given.get("--parent", "")
        issue = {
            "id": f"{parent}.{len(self._children(parent)) + 1}"
            if parent
            else f"shop-{len(self.issues)}",
            "title": title,
            "status": "open",
            "priority": 2,
            "issue_type": given.get("-t", "task"),
        }
        if parent:
            edge = {"issue_id": issue["id"], "depends_on_id": parent, "type": "parent-child"}
            issue["dependencies"] = [edge]
        return self._keep(issue)

    def do_import(self, *words: str) -> None:
        for line in Path(words[-1]).read_text().splitlines():
            self._keep(json.loads(line))

    def do_show(self, issue_id: str) -> list[dict]:
        return [self.issues[issue_id]]

    def do_list(self, *words: str) -> list[dict]:
        found = list(self.issues.values())
        if "--type" in words:
            found = [issue for issue in found if issue["issue_type"] == words[1]]
        if "--parent" in words:
            found = self._children(words[1])
        if "--all" not in words:
            found = [issue for issue in found if issue["status"] != "closed"]
        return found if "--limit" in words else found[:50]

    def do_ready(self, *words: str) -> list[dict]:
        return [issue for issue in self._children(words[1]) if issue["status"] == "open"]

    def do_close(self, issue_id: str) -> list[dict]:
        issue = self.issues[issue_id]
        return [self._keep({**issue, "status": "closed", "closed_at": _now()})]

    def do_update(self, issue_id: str, word: str, value: str | None = None) -> list[dict]:
        issue = self.issues[issue_id]
        flag, _, text = word.partition("=") if value is None else (word, "", value)
        if flag == "--append-notes" and issue.get("notes"):
            text = issue["notes"] + "\n" + text
        return [self._keep({**issue, "notes": text})]

    def _children(self, parent: str) -> list[dict]:
        edges = {issue["id"]: issue.get("dependencies", []) for issue in self.issues.values()}
        return [
            self.issues[issue_id]
            for issue_id, found in edges.items()
            if any(edge["depends_on_id"] == parent for edge in found)
        ]

    def _keep(self, issue: dict) -> dict:
        issue = {**issue, "updated_at": _now()}
        self.issues[issue["id"]] = issue
        if not self.classic:
            with self.path.open("a") as stream:
                stream.write(json.dumps(issue) + "\n")
            return issue
        self.path.write_text("\n".join(map(json.dumps, self.issues.values())))
        temporary = self.lines.with_suffix(".new")
        temporary.write_text(self.path.read_text() + "\n")
        temporary.replace(self.lines)
        return issue


def _now() -> str:
    return datetime.now(UTC).isoformat()
