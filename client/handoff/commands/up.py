import argparse

from handoff import service

EXAMPLE = "handoff up"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    before = service.running()
    if before is not None:
        print(f"handoffd is running (process {before}).")
        return 0
    print(f"handoffd is up (process {service.start()}).")
    return 0
