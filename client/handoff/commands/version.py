import argparse

from handoff import __version__
from handoff.cli import add_json
from handoff.common.errors import EXIT_VERSIONS_DIFFER
from handoff.common.plain_text import plain_json

EXAMPLE = "handoff version --check"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="compare it with the daemon's and the plugin's"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    if given.check:
        return _check(as_json=given.json)
    print(plain_json({"client": __version__}, None) if given.json else f"handoff {__version__}")
    return 0


def _check(*, as_json: bool) -> int:
    from handoff.doctor import versions
    from handoff.doctor.environment import read_environment

    environment = read_environment()
    parts = versions.parts(environment)
    remedies = {name: versions.remedy_for(name, version) for name, version in parts.items()}
    code = EXIT_VERSIONS_DIFFER if any(remedies.values()) else 0
    problem = "" if environment.daemon_version else str(environment.problem)
    if problem and environment.problem is not None:
        code = environment.problem.exit_code
    if as_json:
        print(plain_json({**parts, "exit": code}))
        return code
    for name, version in parts.items():
        print(f"{name:8}{version}" + (f"    {remedies[name]}" if remedies[name] else ""))
    if problem:
        print(f"{'daemon':8}" + problem.replace("\n", "    "))
    return code
