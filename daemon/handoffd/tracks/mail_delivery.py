"""Mail in the outbox: what a letter holds, and how it is sent."""

import json

from handoffd.links.agent_mail import AgentMail, MailError
from handoffd.store.outbox import Letter
from handoffd.tracks.outbox_sender import DeliveryError


def mail_body(subject: str, text: str, importance: str) -> str:
    return json.dumps({"subject": subject, "text": text, "importance": importance})


def deliver_mail(mail: AgentMail, letter: Letter) -> None:
    """Send a letter to its thread; a second attempt looks first whether the first one came."""
    held = json.loads(letter.body)
    try:
        mail.send_once(
            letter.root,
            letter.target,
            held["subject"],
            held["text"],
            held["importance"],
            again=letter.attempts > 1,
        )
    except MailError as problem:
        raise DeliveryError(str(problem), final=problem.final) from None
