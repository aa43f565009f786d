import argparse
import sys

from handoff.common import paths
from handoff.common.errors import EXIT_FAILED, HandoffError
from handoff.setup import foreign_files, http_part, manifest, parts, selection
from handoff.setup.plan import SetupPlan
from handoff.setup.questions import add_consent, agrees, can_ask, choice, refusal

EXAMPLE = "handoff setup --with statusline    (what would change is shown before it is asked for)"
NEXT = """\
Next: start Claude Code in a project and work as usual; `handoff show` says what is known of it.
Sessions that are open now take it up when they are started anew. `handoff doctor` looks
whether all is well, `handoff teardown` takes it all out again."""


def arguments(parser: argparse.ArgumentParser) -> None:
    names = tuple(parts.PLANNERS)
    parser.add_argument(
        "--write",
        choices=("marked", "none"),
        help="where handoff.yaml may be written unasked: in projects with .git, .flow-guardian "
        "or pyproject.toml, or nowhere",
    )
    for option, name, text in (
        ("--with", "wanted", f"add a part: {', '.join(names)}"),
        ("--without", "unwanted", "leave a part out"),
    ):
        parser.add_argument(
            option, dest=name, action="append", choices=names, default=[], metavar="PART", help=text
        )
    parser.add_argument(
        "--public-url",
        metavar="URL",
        help="the address of the part http on the web, as in https://bridge.example.org",
    )
    add_consent(parser)


def run(given: argparse.Namespace) -> int:
    public_url = given.public_url and http_part.checked_url(given.public_url)
    if public_url:
        given.wanted.append("http")
    asks = can_ask(given)
    if asks:
        _ask_open_questions(given)
    chosen = selection.choose(given.wanted, given.unwanted)
    plan = selection.make_plan(chosen, given.write, public_url)
    problems = selection.problems(plan)
    if given.dry_run:
        print(plan.report(whole=True), end="")
        sys.stderr.writelines(f"handoff: {problem}\n" for problem in problems)
        return EXIT_FAILED if problems else 0
    if problems:
        raise HandoffError(problems[0].title, f"{problems[0].hint}\nNothing was changed.")
    print(plan.report(whole=not (asks or given.yes)), end="", flush=True)
    if plan.is_empty:
        print("Everything is in place.")
        _print_http(chosen)
        return 0
    refused = refusal(given, "setup", "Do this? [Y/n] ")
    if refused is not None:
        return refused
    with manifest.exclusive():
        _require_same(plan, selection.make_plan(chosen, given.write, public_url)).apply()
    print(f"Done.\n\n{NEXT}")
    _print_http(chosen)
    return 0


def _print_http(chosen: list[str]) -> None:
    if "http" in chosen:
        print(f"\n{http_part.describe()}", end="")


def _ask_open_questions(given: argparse.Namespace) -> None:
    if given.write is None:
        now = parts.write_setting((foreign_files.read(paths.config_file()) or b"").decode())
        print("Where may handoffd write .flow-guardian/handoff.yaml unasked?")
        print("  marked: in projects of yours with .git, .flow-guardian or pyproject.toml")
        print("  none:   nowhere; what it knows is told to sessions all the same")
        given.write = choice("marked or none?", ("marked", "none"), now)
    for part, question in selection.OPTIONAL.items():
        is_open = part not in (*given.wanted, *given.unwanted)
        if is_open and selection.is_missing(part) and agrees(f"{question} [y/N] ", default=False):
            given.wanted.append(part)


def _require_same(shown: SetupPlan, latest: SetupPlan) -> SetupPlan:
    """Return the latest plan if it still does the same: other programs write these files, too."""
    if shown.changed_lines() != latest.changed_lines():
        raise HandoffError("A file has changed meanwhile; nothing was done.", "Run it again.")
    return latest
