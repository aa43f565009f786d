import argparse

from handoff import local, service
from handoff.common.errors import HandoffError

EXAMPLE = "handoff restart"


def arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(_given: argparse.Namespace) -> int:
    problem = local.daemon_code().config_problem()
    if problem:
        raise HandoffError("The configuration is broken, so nothing was changed.", problem)
    service.stop()
    print(f"handoffd is up (process {service.start()}).")
    return 0
