import argparse

from handoff import service
from handoff.common.errors import NotRunningError

EXAMPLE = "handoff down"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    pid = service.stop()
    if pid is None:
        raise NotRunningError
    print(f"handoffd (process {pid}) has ended.")
    return 0
