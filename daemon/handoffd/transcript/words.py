"""The words of a record, for showing what a claim rests on. Pure."""

from handoffd.transcript.events import (
    Aimed,
    Commanded,
    Prompt,
    Recapped,
    Said,
    Stopped,
    Summarised,
    Titled,
    events,
)
from handoffd.transcript.records import Record
from handoffd.transcript.tools import (
    Approved,
    Asked,
    Decided,
    Denied,
    Drafted,
    Edited,
    Listed,
    Planned,
    Proposed,
    Ran,
    Resulted,
    output_text,
)


def words(record: Record) -> str:
    """Return what a record says, as one text."""
    return "\n".join(text for event in events(record) if (text := _words(event)))


def _words(event: object) -> str:
    match event:
        case Prompt(text) | Said(text) | Summarised(text) | Recapped(text) | Titled(text):
            found = [text]
        case Stopped(text) | Aimed(text) | Denied(_, text) | Proposed(_, text):
            found = [text]
        case Approved(text) | Drafted(text) | Ran(_, text) | Edited(_, text):
            found = [text]
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
        case Resulted(output=output):
            found = [output_text(output)]
        case _:
            found = []
    return "\n".join(found)
