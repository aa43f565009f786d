import argparse

from handoff import local
from handoff.mcp_relay import relay

EXAMPLE = (
    "handoff mcp --client code\n\n"
    "For Claude Code: claude mcp add --scope user handoffd -- handoff mcp --client code"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--client",
        choices=("chat", "code"),
        default="chat",
        help="the side that a call speaks for unless it says otherwise (default: %(default)s)",
    )
    # A relay that finds no daemon starts a process with this flag, which answers from core.db.
    parser.add_argument("--from-disk", action="store_true", help=argparse.SUPPRESS)


def run(given: argparse.Namespace) -> int:
    if given.from_disk:
        local.daemon_code("mcp").serve(given.client, relay.directory())
        return 0
    return relay.run(given.client)
