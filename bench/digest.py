"""Prints claude-handoff's knowledge of a session as goal, now, next and files.

bench/digest.py PROGRAM TRANSCRIPT: it has no such fields, so each is the nearest section.
"""

import json
import re
import subprocess
import sys

# As many as its digest shows.
FILES_MAX = 15
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def main() -> None:
    program, transcript = sys.argv[1:]
    words = [program, transcript, "--format", "json", "-o", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    print(json.dumps(answers(json.loads(done.stdout))))


def answers(document: dict) -> dict[str, str | list[str]]:
    asked = _said(document, "user")
    told = _said(document, "assistant")
    written = document["activity"]["files_written"]
    return {
        "goal": asked[0] if asked else "",
        "now": told[-1] if told else "",
        "next": [*asked[-1:], *(_SENTENCE.split(told[-1])[-2:] if told else [])],
        "files": sorted(written, key=lambda path: -written[path])[:FILES_MAX],
    }


def _said(document: dict, role: str) -> list[str]:
    return [turn["text"] for turn in document["turns"] if turn["role"] == role and turn["text"]]


if __name__ == "__main__":
    main()
