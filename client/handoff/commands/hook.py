import argparse

from handoff import fast

EXAMPLE = 'echo \'{"hook_event_name": "SessionStart", "source": "startup"}\' | handoff hook'


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    fast.main("handoff", ["hook"])
    return 0
