"""Return the words of a record, to show the evidence for a claim. Pure."""

from handoffd.agents.claude_code.record_events import events
from handoffd.agents.claude_code.records import Record
from handoffd.agents.claude_code.tool_events import output_text
from handoffd.agents.events import (
    Aimed,
    Approved,
    Asked,
    Commanded,
    Decided,
    Denied,
    Drafted,
    Edited,
    GitDone,
    Listed,
    Looked,
    Moved,
    Notified,
    Opened,
    Planned,
    Prompt,
    Proposed,
    Ran,
    Recapped,
    Resulted,
    Said,
    Shelled,
    Stopped,
    Summarised,
    Titled,
)


def words(record: Record) -> str:
    """Return the words of a record as one text."""
    return "\n".join(text for event in events(record) if (text := _words(event)))


def _words(event: object) -> str:
    match event:
        case Prompt(text) | Said(text) | Summarised(text) | Recapped(text) | Titled(text):
            return text
        case Stopped(text) | Aimed(text) | Denied(_, text) | Proposed(_, text) | Approved(text):
            return text
        case Drafted(text) | Ran(_, text) | Edited(_, text) | Looked(text) | Moved(text):
            return text
        case Notified(_, _, text):
            return text
        case Resulted(output=output):
            return output_text(output)
    return "\n".join(_several(event))


def _several(event: object) -> list[str]:
    match event:
        case Opened(number, url):
            found = [f"#{number} {url}"]
        case GitDone(sha, branch) | Shelled(sha, branch):
            found = [sha, branch]
        case Commanded(name, arguments):
            found = [f"/{name} {arguments}"]
        case Asked(_, questions):
            found = list(questions)
        case Decided(answers):
            found = [f"{question} {answer}" for question, answer in answers]
        case Listed(todos):
            found = [todo.text for todo in todos]
        case Planned(todo):
            found = [todo.text]
        case _:
            found = []
    return found
