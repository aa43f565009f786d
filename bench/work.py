"""The actions of people and their programs in a day: each worker acts, and yields its pause."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from day import IDLE_SECONDS, Day, Told
from rpc import Session as Relay
from synthetic import Script
from world import BIN

SESSIONS_A_DAY, SESSIONS_LEAST = 800, 40
DAY_MINUTES = 14.4
# The share of work begun in each hour, from six in the morning: two peaks, late work, silence.
HOURS = (1, 2, 5, 8, 9, 8, 3, 6, 9, 9, 7, 4, 2, 2, 3, 3, 1, 0, 0, 0, 0, 0, 0, 0)
ENDINGS = ("ended", "killed", "silent", "cleared")
TURNS_MEAN, PAUSE_MEAN_SECONDS = 4, 2.0
# Not to scale: a change that comes and goes between two looks, every ten seconds, is never seen.
EPIC_SECONDS = 150.0
# The first look at a project records its state; any later change is news.
SEEN_SECONDS = 14.0
RELAYS_MOST = 5


def workers(day: Day) -> list[Iterator[float]]:
    alone = [arrivals, commits, edits, questions, relays, reloads]
    return [*(work(day) for work in alone), *(epics(day, project) for project in day.epics)]


# Sessions


def arrivals(day: Day) -> Iterator[float]:
    """Begin sessions as a day has them: in few projects many, in many projects few."""
    number = max(round(SESSIONS_A_DAY * day.minutes / DAY_MINUTES), SESSIONS_LEAST)
    hours = day.random.choices(range(len(HOURS)), HOURS, k=number)
    share = day.minutes * 60 / len(HOURS)
    at = 0.0
    for moment in sorted((hour + day.random.random()) * share for hour in hours):
        yield moment - at
        at = moment
        place = min(int(day.random.paretovariate(0.6)) - 1, len(day.projects) - 1)
        day.add(live(day, day.projects[place]))


def live(
    day: Day, project: Path, client: subprocess.Popen | None = None, ending: str = ""
) -> Iterator[float]:
    """Live through a session, from its first prompt to its end."""
    told = begin(day, project, ending or day.random.choice(ENDINGS))
    hooked = day.random.random() < 0.3
    if client is None and not told.headless and (told.ending == "killed" or hooked):
        client = day.client()
        day.claim(client, told)
    if hooked:
        hook(day, told, "SessionStart", source="startup")
    for _ in range(1 + int(day.random.expovariate(1 / (TURNS_MEAN - 1)))):
        yield from turn(day, told)
        if day.is_over:
            break
        yield pause(day)
    end(day, told, client)


def begin(day: Day, project: Path, ending: str) -> Told:
    headless = day.random.random() < 0.15
    seed = day.random.getrandbits(64)
    script = Script(str(project), seed, entrypoint="sdk-cli" if headless else "cli")
    told = Told(script, day.world.transcript(script), "silent" if headless else ending)
    told.goal = f"Make part {len(day.sessions)} of {project.name} count its lines correctly"
    day.sessions.append(told)
    return told


def pause(day: Day) -> float:
    """Return a person's time to think; now and then it is lunch."""
    if day.random.random() < 0.03:
        return IDLE_SECONDS * 1.8
    return day.random.expovariate(1 / PAUSE_MEAN_SECONDS)


def turn(day: Day, told: Told) -> Iterator[float]:
    """Ask, and let tools work, a burst at a time; a turn ends with words."""
    script = told.script
    told.prompts += 1
    again = f"Go on with step {told.prompts} of it"
    told.write(script.prompt(told.goal if told.prompts == 1 and told.goal else again))
    told.edited = f"{script.cwd}/source/file{day.random.randrange(40)}.py"
    told.write(*script.edit(told.edited))
    for _ in range(day.random.randrange(2, 8)):
        yield day.random.lognormvariate(-3.5, 1.0)
        lines = list(script.tool())
        if day.random.random() < 0.4:
            lines.insert(0, script.say(script.words(200)))
        # A call, and later its result.
        told.write(*lines[:-1])
        yield day.random.lognormvariate(-4.0, 1.0)
        told.write(lines[-1])
    if day.random.random() < 0.15:
        yield from delegate(day, told)
    if day.random.random() < 0.06:
        told.compactions += 1
        told.goal = None
        told.write(script.compaction())
    told.write(script.say(f"Step {told.prompts} is done."), script.metadata())
    day.done["turns"] += 1


def delegate(day: Day, told: Told) -> Iterator[float]:
    """Let a sub-agent work; it has a transcript of its own."""
    agent = told.script.agent()
    told.write_agent(agent, agent.prompt("Look for the callers of it"))
    for _ in range(day.random.randrange(2, 6)):
        yield day.random.lognormvariate(-3.0, 1.0)
        told.write_agent(agent, *agent.tool())
    told.write_agent(agent, agent.say("There are three."))
    day.done["sub-agents"] += 1


def end(day: Day, told: Told, client: subprocess.Popen | None) -> None:
    day.done[told.ending] += 1
    if told.ending == "killed" and client:
        client.send_signal(signal.SIGKILL)
        client.wait()
    elif told.ending == "ended":
        hook(day, told, "SessionEnd", reason="prompt_input_exit")
        if client:
            (day.world.home / f".claude/sessions/{client.pid}.json").unlink(missing_ok=True)
            client.kill()
            client.wait()
    elif told.ending == "cleared" and not day.is_over:
        # The client goes on with a new session, and claims the old one for ever.
        day.add(live(day, Path(told.script.cwd), client, "silent"))


def hook(day: Day, told: Told, event: str, **fields: str) -> None:
    given = {"hook_event_name": event, "session_id": told.script.id, "cwd": told.script.cwd}
    given |= {"transcript_path": str(told.path), **fields}
    day.run(str(BIN / "handoff"), "hook", cwd=Path(told.script.cwd), given=json.dumps(given))
    day.done["hooks"] += 1


# Around them


def busy_project(day: Day) -> Path:
    """Return a project with recent work."""
    lately = [Path(told.script.cwd) for told in day.sessions[-30:]]
    return day.random.choice(lately or day.projects)


def commits(day: Day) -> Iterator[float]:
    """Commit, and change branches."""
    for seconds in day.now_and_then(1.5):
        yield seconds
        project = busy_project(day)
        words = ["commit", "-q", "--allow-empty", "-m", f"Count {day.done['commits']}"]
        if day.random.random() < 0.3:
            words = ["checkout", "-q", "-B", day.random.choice(("main", "counting", "cart"))]
        day.run("git", *words, cwd=project)
        day.reap()  # two at once in one repository would refuse each other
        day.done["commits"] += 1


def edits(day: Day) -> Iterator[float]:
    """Put a line of one's own into a checkpoint, as an editor does."""
    for seconds in day.now_and_then(2.0):
        yield seconds
        path = busy_project(day) / ".flow-guardian/handoff.yaml"
        if path.exists():
            note = f"note_{len(day.notes)}: by hand"
            temporary = path.with_name(".handoff.yaml.swp")
            temporary.write_text(f"{path.read_text()}{note}\n")
            os.replace(temporary, path)
            day.notes.append((path, note))


def questions(day: Day) -> Iterator[float]:
    """Ask as people, editors and status lines do."""
    for seconds in day.now_and_then(1.0):
        yield seconds
        command = day.random.choice((["inject"], ["status"], ["show"], ["sessions"], ["list"]))
        day.run(str(BIN / "handoff"), *command, cwd=busy_project(day))
        day.done["questions"] += 1


def relays(day: Day) -> Iterator[float]:
    """Open and close MCP relays, and let them use threads."""
    opened: list[Relay] = []
    try:
        for seconds in day.now_and_then(1.0):
            yield seconds
            if len(opened) < RELAYS_MOST:
                opened.append(Relay(day.ours.words, day.world.environment, str(busy_project(day))))
                opened[-1].initialize()
                day.done["relays"] += 1
            converse(day, day.random.choice(opened))
            if len(opened) == RELAYS_MOST or day.random.random() < 0.3:
                leave(opened.pop(0), killed=day.random.random() < 0.3)
    finally:
        for relay in opened:
            leave(relay, killed=False)


def leave(relay: Relay, *, killed: bool) -> None:
    if killed:
        relay.process.kill()
    relay.__exit__()


def converse(day: Day, relay: Relay) -> None:
    """Begin a thread, add to one, or close one."""
    choice = day.random.random()
    if choice < 0.4 or not day.threads:
        number = day.done["threads"]
        _, answer = relay.call(*day.ours.create(number))
        day.threads[day.ours.key(number, answer)] = 1
        day.done["threads"] += 1
    elif choice < 0.8:
        key = day.random.choice(list(day.threads))
        relay.call(*day.ours.add(key, day.threads[key]))
        day.threads[key] += 1
    else:
        key = day.random.choice(list(day.threads))
        relay.call("close_handoff", {"id": key})
        del day.threads[key]


def reloads(day: Day) -> Iterator[float]:
    for seconds in day.now_and_then(20.0):
        yield seconds
        os.kill(day.world.pid, signal.SIGHUP)
        day.done["reloads"] += 1


def epics(day: Day, project: Path) -> Iterator[float]:
    """Take up epics and close them, in a project with work."""
    day.add(live(day, project, None, "silent"))
    yield SEEN_SECONDS
    while not day.is_over:
        made = day.beads(project, "create", "The cart", "-t", "epic")
        begun = project.parent / f"{project.name}.jsonl"
        begun.write_text(json.dumps({**made, "status": "in_progress"}))
        day.beads(project, "import", str(begun))
        day.epics[project]["epic-start"] += 1
        yield EPIC_SECONDS
        if day.is_over:
            return  # its beginning would never be seen
        day.beads(project, "close", made["id"])
        day.epics[project]["epic-end"] += 1
        yield EPIC_SECONDS + day.random.expovariate(1 / EPIC_SECONDS)
