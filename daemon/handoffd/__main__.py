"""Run `handoffd`: a service manager's call without a parser, all others by command_line.py."""

import sys

from handoff.common import paths
from handoffd.start import start


def main() -> None:
    if sys.argv[1:2] == ["--client"]:
        # The client's wrapper could not find its own interpreter, and uses ours.
        from handoff.fast import main as client_main  # noqa: PLC0415

        client_main(sys.argv[2], sys.argv[3:])
    elif sys.argv[1:] == ["run"]:
        sys.exit(start(paths.config_file(), None))
    elif sys.argv[1:3] == ["run", "--log-file"] and len(sys.argv) == 4:  # noqa: PLR2004
        sys.exit(start(paths.config_file(), sys.argv[3]))  # `handoff up`, and launchd
    else:
        from handoffd.command_line import run  # noqa: PLC0415  a parser stays in memory

        sys.exit(run())


if __name__ == "__main__":
    main()
