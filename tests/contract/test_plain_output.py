"""Text from others is printed in few places: this test reads the code and notices a new one."""

import ast

from conftest import REPOSITORY

DAEMON = sorted((REPOSITORY / "daemon/handoffd").rglob("*.py"))
CLIENT = sorted((REPOSITORY / "client/handoff").rglob("*.py"))
# Objects whose `render` shows the result of a method.
METHODS = {"method", "METHOD", "show", "save", "thread", "open_", "list_", "review", "close"}


def holding(paths, wanted):
    """Return the files that hold a node for which `wanted` is true."""
    return [
        str(path.relative_to(REPOSITORY))
        for path in paths
        if any(wanted(node) for node in ast.walk(ast.parse(path.read_text())))
    ]


def test_one_place_renders():
    """Only `shown` renders the result of a method, from data that it made harmless."""

    def renders(node):
        if isinstance(node, ast.ImportFrom) and "api.handlers." in (node.module or ""):
            return "render" in {alias.name for alias in node.names}
        is_render = isinstance(node, ast.Attribute) and node.attr == "render"
        return is_render and ast.unparse(node.value) in METHODS

    assert ["daemon/handoffd/api/method.py"] == holding(DAEMON, renders)


def test_few_places_write_past_the_stream():
    """Only the hot path, the relay and the status line's pipe write past the client's stream."""
    raw = {"posix.write", "os.write", "sys.stdout.buffer", "sys.__stdout__", "sys.__stderr__"}
    found = holding(
        CLIENT, lambda node: isinstance(node, ast.Attribute) and ast.unparse(node) in raw
    )

    assert [
        f"client/handoff/{name}.py" for name in ("fast", "mcp_relay/relay", "statusline")
    ] == found


def test_few_places_of_the_daemon_call_a_text_harmless():
    """Text is declared harmless only if it consists of harmless parts or the user wrote it."""
    found = holding(
        DAEMON, lambda node: isinstance(node, ast.Call) and ast.unparse(node.func) == "PlainText"
    )

    assert [
        "daemon/handoffd/api/replay.py",
        "daemon/handoffd/contract/presentation.py",
        "daemon/handoffd/hooks/brief.py",
        "daemon/handoffd/hooks/session_hooks.py",
        "daemon/handoffd/session/frame.py",
    ] == found
