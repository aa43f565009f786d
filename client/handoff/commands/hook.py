import argparse

from handoff import fast

EXAMPLE = """handoff hook <<< '{"hook_event_name": "SessionStart", "source": "startup"}'"""


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    fast.main("handoff", ["hook"])
    return 0
