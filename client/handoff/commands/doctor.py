import argparse
from dataclasses import asdict

from handoff.cli import add_json
from handoff.common.errors import EXIT_USAGE, HandoffError
from handoff.common.plain_text import PlainText, plain_json, plain_line
from handoff.doctor import examine
from handoff.doctor.environment import read_environment
from handoff.doctor.finding import BAD, NOTE, Finding, exit_code
from handoff.setup import locations

EXAMPLE = "handoff doctor --json"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--explain", metavar="WORD", help="tell more of a warning: the word in its brackets"
    )
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    if given.explain:
        print(PlainText(_explanation(given.explain)))
        return 0
    found = examine(read_environment())
    every = [finding for findings in found.values() for finding in findings]
    code = exit_code(every)
    if given.json:
        listed = [
            {"subject": subject, **asdict(finding)}
            for subject, findings in found.items()
            for finding in findings
        ]
        print(plain_json({"findings": listed, "exit": code}))
        return code
    print("\n".join([*_lines(found), "", _conclusion(every)]))
    return code


def _explanation(word: str) -> str:
    """Return the section of docs/troubleshooting.md under a heading."""
    with open(locations.shipped_file("docs/troubleshooting.md"), encoding="utf-8") as stream:
        _, *sections = stream.read().split("\n## ")
    texts = {heading: text.strip() for heading, _, text in (s.partition("\n") for s in sections)}
    if word not in texts:
        problem = HandoffError(f"No warning has the word {word!r}.", f"Known: {', '.join(texts)}")
        problem.exit_code = EXIT_USAGE
        raise problem
    return texts[word]


def _lines(found: dict[str, list[Finding]]) -> list[str]:
    """Return the lines of a report: a subject once, then its findings, each above its remedy."""
    width = max(map(len, found)) + 2
    lines = []
    for subject, findings in found.items():
        for number, finding in enumerate(findings):
            name = "" if number else subject
            mark = finding.level.upper() if finding.level == BAD else finding.level
            lines.append(f"{name:{width}}{mark:6}{plain_line(finding.text)}")
            if finding.remedy:
                lines.append(f"{'':{width + 6}}-> {plain_line(finding.remedy)}")
    return lines


def _conclusion(findings: list[Finding]) -> str:
    needed = sum(finding.level == BAD for finding in findings)
    notes = sum(finding.level == NOTE for finding in findings)
    if needed:
        return "1 thing needs you." if needed == 1 else f"{needed} things need you."
    if notes:
        return f"All is well, with {notes} note{'' if notes == 1 else 's'}."
    return "All is well."
