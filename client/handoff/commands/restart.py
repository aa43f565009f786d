import argparse

from handoff import service

EXAMPLE = "handoff restart"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    service.stop()
    print(f"handoffd is up (process {service.start()}).")
    return 0
