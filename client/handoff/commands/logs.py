import argparse
import os
import sys
from collections import deque

from handoff import service
from handoff.cli import positive
from handoff.common import programs
from handoff.common.errors import HandoffError
from handoff.common.plain_text import PlainText, escaped_json

EXAMPLE = "handoff logs -n 50"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--lines", type=positive, default=100, metavar="N", help="default: 100"
    )


def run(given: argparse.Namespace) -> int:
    journal = programs.find("journalctl")
    if journal and service.has_systemd_unit():
        sys.stdout.flush()
        words = ["--user", "-u", service.UNIT, "-n", str(given.lines), "--no-pager"]
        os.execve(journal, [journal, *words], programs.environment())  # noqa: S606  fixed words
    try:
        with open(service.log_file(), encoding="utf-8", errors="replace") as stream:
            for line in deque(stream, maxlen=given.lines):
                sys.stdout.write(PlainText(escaped_json(line)))
    except FileNotFoundError:
        raise HandoffError(
            f"There is no log at {service.log_file()}.",
            "A daemon that `handoff up` starts makes it.",
        ) from None
    return 0
