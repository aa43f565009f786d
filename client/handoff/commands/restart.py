import argparse

from handoff import service

HELP = "end the daemon, if it runs, and start it"
EXAMPLE = "handoff restart"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    service.stop()
    print(f"handoffd is up (process {service.start()}).")
    return 0
