import argparse

from handoff import fast

EXAMPLE = "handoff inject --level L2"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="no effect: it is always quiet")
    parser.add_argument(
        "-l",
        "--level",
        choices=fast.LEVELS,
        help="L0 one line, L1 five files (default), L2 all files and lists, L3 everything",
    )
    parser.add_argument(
        "--save-state",
        action="store_true",
        help="for the PreCompact hook: write the checkpoint and print nothing",
    )


def run(given: argparse.Namespace) -> int:
    words = ["--level", given.level] if given.level else []
    words += ["--save-state"] if given.save_state else []
    fast.main("handoff", ["inject", *words])
    return 0
