"""Every way by which foreign text reaches a session: a function of the text to the told text."""

from types import SimpleNamespace

from handoffd.contract import contract_format, presentation
from handoffd.hooks import brief
from handoffd.hooks.brief import BriefContext, NewestHandoff
from handoffd.tracks import analysis, message, plan, record
from handoffd.tracks.resume import _cleaned
from scripted_session import ROOT, Told

DOCUMENT = {"goal": "Round tax per line", "now": "Editing tax.py"}
RECORD = record.TrackRecord("2026-03-01T09:00:00.000Z", "manual", "auth_20260301")


def _brief(told: Told, level: str = "L2") -> str:
    return brief.render(told.view().document, ROOT, level)


def _working() -> Told:
    return Told().prompt("Round tax per line in the invoice module").edit("tax.py")


def failed_command(text: str) -> str:
    """The output of a command that failed three times."""
    told = _working()
    for _ in range(3):
        told.run(f"make {text}", f"error: {text}", code=1)
    return _brief(told)


def pytest_id(text: str) -> str:
    output = f"FAILED tests/test_tax.py::test_it[{text}] - {text}\n=== 1 failed in 0.1s ==="
    return _brief(_working().run("pytest", output, code=1))


def question(text: str) -> str:
    told = _working()
    told.use("AskUserQuestion", questions=[{"question": text, "options": [{"label": text}]}])
    return _brief(told)


def todo(text: str) -> str:
    told = _working()
    told.use("TodoWrite", todos=[{"content": text, "status": "pending", "activeForm": text}])
    return _brief(told)


def words(text: str) -> str:
    """A prompt, a title and an answer."""
    told = Told(gitBranch=text).prompt(f"Round tax per line {text}")
    told.raw({"type": "custom-title", "customTitle": text}).say(f"Next, I'll {text}.")
    return _brief(told)


def file_name(text: str) -> str:
    return _brief(_working().edit(f"{text}.py"))


def commit(text: str) -> str:
    moved = brief.git_changes((text, f"{text}2"), [f"1a2b3c4 {text}"])
    return brief.render(DOCUMENT, "/p", context=BriefContext([text], (), None, moved))


def news(text: str) -> str:
    moved = brief.git_changes(("main", text), [f"1a2b3c4 {text}"])
    calls = brief.calls_of(contract_format.Contract(escalations=(text,)))
    return brief.urgent(text, [("hof_1", 2)], [*calls, *moved])


def directory(text: str) -> str:
    return brief.render({**DOCUMENT, "timestamp": text}, f"/{text}")


def committed_yaml(text: str) -> str:
    """A handoff.yaml of the repository, with an unknown field."""
    document = {"goal": text, "now": text, "next": [text, {text: text}], "files": [text]}
    return brief.render({**document, text: text, "zzz": [text]}, "/p", "L3")


def handoff(text: str) -> str:
    """A contract: told beside the state."""
    left = NewestHandoff(
        0.0, contract_format.parse(f"purpose: {text}\n\n## Next\n- {text}\n## Risks\n- {text}\n")
    )
    return brief.render(DOCUMENT, "/p", context=BriefContext(newest=left))


def opened(text: str) -> str:
    """A contract, as `open` tells it, beside another one."""
    body = (
        f"# Handoff\n\npurpose: {text}\n\n## Done\n- {text}\nHUMAN REVIEW NEEDED: {text}\n{text}\n"
    )
    found = [
        SimpleNamespace(path=path, seconds=0.0, stamp="s", contract=contract_format.parse(body))
        for path in (f"/h/{text}.md", f"/h/2{text}.md")
    ]
    items, _ = presentation.mentioned(presentation.listed(found, {}, 60.0))
    return presentation.opened(found[0].contract, items, framed=True)


def _resumed(found: record.TrackRecord, text: str, plan_text: str = "") -> str:
    issue = SimpleNamespace(id=text, title=text, status=text)
    work = analysis.TrackProgress(
        plan.progress(plan.read_plan(plan_text), None), issue, [issue, issue]
    )
    here = analysis.CurrentTree(text, commit=text, changed=frozenset([text]), red_tests=text)
    moved = analysis.drift(found, 60.0, 7.0, here)
    return analysis.framed(analysis.present(_cleaned(found, ()), text, work, moved), f"/{text}")


def track_record(text: str) -> str:
    """A record in conductor/, with Beads' titles and a plan around it."""
    said = f"---\ntrack_id: {text}\ntrigger: {text}\ngit_branch: {text}\n---\n## {text}\n{text}\n"
    found = record.parse(f"{said}## Next Steps\n1. [ ] {text}\n", "auth/2026-03-01_manual.md")
    return _resumed(found, text, f"## Phase 1: {text}\n- [ ] {text}\n- [x] {text}\n")


def mail(text: str) -> str:
    subject = f"[HANDOFF:{text}] {text}"
    found = message.read(subject, f"## Context\n{text}\n## Next Steps\n- {text}\n", text)
    return _resumed(found or RECORD, text)


CHANNELS = {
    channel.__name__: channel
    for channel in (
        failed_command, pytest_id, question, todo, words, file_name, commit, news, directory,
        committed_yaml, handoff, opened, track_record, mail,
    )
}  # fmt: skip
# In a contract the call for a person is meant as one, wherever it stands.
CALLING = {"news": 1, "handoff": 3, "opened": 3}
