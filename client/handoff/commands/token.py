import argparse
import sys
from typing import Any

from handoff import fast, local
from handoff.cli import ASKED_SECONDS, add_json
from handoff.client import Client
from handoff.common.errors import EXIT_CHOICE_NEEDED, NotRunningError
from handoff.common.plain_text import PlainText, plain_json
from handoff.setup.questions import agrees

EXAMPLE = "handoff token show        (the daemon need not run; a new token holds at once)"
_EXAMPLES = {
    "show": "",
    "rotate": "",
    "approve": "K3QX-7VNA        (the page in your browser shows the code)",
    "list": "",
    "revoke": "1f0c93ab        (`handoff token list` shows the ids)",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    _action(actions, "show", "print the token, which is made when there is none")
    _action(actions, "rotate", "put a new token in the place of the old one, and print it")
    approve = _action(actions, "approve", "let a client in that asks for access by OAuth")
    approve.add_argument("code", metavar="CODE", help="the code that the page in the browser shows")
    approve.add_argument("--yes", action="store_true", help="do not ask")
    listed = _action(actions, "list", "the clients that have access by OAuth, or ask for it")
    revoke = _action(actions, "revoke", "end the access of a client at once")
    which = revoke.add_mutually_exclusive_group(required=True)
    which.add_argument("client", nargs="?", metavar="ID", help="the id, or how it begins")
    which.add_argument("--all", action="store_true", help="all clients")
    for action in (approve, listed, revoke):
        add_json(action)


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"Example: handoff token {name} {_EXAMPLES[name]}".strip(),
    )
    return parser


def run(given: argparse.Namespace) -> int:
    if given.action in ("show", "rotate"):
        print(local.daemon_code().token(rotate=given.action == "rotate"))
        return 0
    words = {name: vars(given)[name] for name in ("action", "code", "client") if name in given}
    if given.action == "revoke" and given.all:
        words["client"] = "*"
    if given.action == "approve" and not given.yes:
        refused = _ask_first(words)
        if refused is not None:
            return refused
    data, text = _call(words)
    sys.stdout.write(PlainText(plain_json(data["clients"]) + "\n" if given.json else text))
    return 0


def _call(params: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Ask the daemon, or run the action here without one; return data and text."""
    style = fast.rendering(as_json=False)
    try:
        result = Client(ASKED_SECONDS).call("token", render=style, **params)
    except NotRunningError:
        found: tuple[dict[str, Any], str] = local.daemon_code("runner").run("token", params, style)
        return found
    return result["data"], result["text"]


def _ask_first(words: dict[str, Any]) -> int | None:
    """Show the client and ask; return the exit code if it is not to be approved."""
    data, _ = _call({**words, "action": "look"})
    client = data["clients"][0]
    who = f"{client['name']!r}, which is answered at {client['answered_at']}"
    if not sys.stdin.isatty():
        sys.stderr.write(
            f"This lets {who}, use your threads: handoff token approve {words['code']} --yes\n"
        )
        return EXIT_CHOICE_NEEDED
    print("Approve it only if you have just asked for it yourself.")
    if agrees(f"May {who}, use your threads? [y/N] ", default=False):
        return None
    print("It was not approved.")
    return 0
