"""At session start: the number of unread entries of threads that were used here as code."""

import json
import re

import pytest

from conftest import contents_below, wait_for
from mcp_socket_client import Mcp, ask, configure

WORDS = "quixotic-zanzibar"


def thread(sandbox, *words, **run) -> str:
    done = sandbox.handoff("thread", *words, **run)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def begun(sandbox, *words) -> str:
    return thread(sandbox, "create", f"Title {WORDS}", f"Words {WORDS}", *words).splitlines()[0]


def used(sandbox, project, *words) -> str:
    """Create a thread as Chat and use it as Code in a project; returns its id."""
    shared = begun(sandbox, *words)
    thread(sandbox, "read", shared, "--as", "code", cwd=project)
    return shared


def injected(sandbox, project, *words) -> str:
    done = sandbox.handoff("inject", *words, cwd=project)
    assert (0, "") == (done.returncode, done.stderr)
    assert WORDS not in done.stdout
    return done.stdout


def mentioned(sandbox, project, *words) -> dict[str, int]:
    """Return the threads that a new session is told of, with the count of unread entries."""
    text = injected(sandbox, project, *words)
    found = re.search(r"(?m)^\*\*Unread entries in threads used here:\*\* (.*)\. get_handoff", text)
    if found is None:
        return {}
    assert text.startswith("<handoffd-context ")
    assert text.index(found[0]) < text.index("</handoffd-context>")
    return {name: int(number) for name, number in re.findall(r"(hof_\S+) \((\d+)\)", found[1])}


def kept(sandbox) -> str:
    """Return all briefs on disk, which are for a time without a daemon."""
    found = contents_below(sandbox.state / "briefs").items()
    return "".join(text.decode() for path, text in found if not path.name.startswith("."))


@pytest.mark.quick
def test_unread_entries_are_mentioned(world):
    """A session is told the number of unread entries in the threads its project used as code."""
    project = world.project()
    shared = used(world, project)
    assert "" == injected(world, project)
    for number in (1, 2):
        thread(world, "add", shared, "decision", f"{WORDS} {number}")
        assert {shared: number} == mentioned(world, project)
    thread(world, "add", shared, "progress", "Begun", "--as", "code", cwd=project)
    assert {shared: 2} == mentioned(world, project)
    thread(world, "read", shared, "--as", "code")

    assert "" == injected(world, project)


@pytest.mark.quick
def test_an_answer_to_what_was_read_ends_the_mention(world):
    """Code reads the new entries and answers: no later session is told of them."""
    project = world.project()
    shared = used(world, project)
    thread(world, "add", shared, "decision", WORDS)
    assert {shared: 1} == mentioned(world, project)
    thread(world, "get", shared, "--as", "code", cwd=project)
    assert {shared: 1} == mentioned(world, project)
    thread(world, "add", shared, "done", "Ready", "--as", "code", cwd=project)

    wait_for(lambda: "" == injected(world, project))


def test_only_what_was_used_here_as_code(world):
    """Only a use as code, in this project and of this thread, makes a mention: no tag does."""
    project, other = world.project(), world.project("other")
    tagged = begun(world, "--project", "shop")
    thread(world, "get", tagged, "--as", "chat", cwd=project)
    assert {} == mentioned(world, project)
    elsewhere = begun(world)
    thread(world, "get", elsewhere, "--as", "code", cwd=other)

    assert {} == mentioned(world, project)
    assert {elsewhere: 1} == mentioned(world, other)


@pytest.mark.parametrize(
    "words",
    [("get",), ("add", "progress", "Begun"), ("read", "--up-to", "0")],
    ids=lambda words: words[0],
)
def test_every_use_as_code_counts(world, words):
    """Reading, writing, marking and creating a thread as code is a use of it."""
    project = world.project()
    (project / "src").mkdir()
    shared = begun(world)
    thread(world, words[0], shared, *words[1:], "--as", "code", cwd=project / "src")
    assert {shared: 1} == mentioned(world, project)

    made = thread(world, "create", "T", "W", "--as", "code", cwd=project).splitlines()[0]
    thread(world, "add", made, "decision", "Go on")
    assert {shared: 1, made: 1} == mentioned(world, project)


@pytest.mark.quick
def test_close_ends_the_mention(world):
    """A closed thread has nothing to read, and closing one is no use of it."""
    project = world.project()
    shared = begun(world)
    thread(world, "get", shared, "--as", "code", cwd=project)
    assert {shared: 1} == mentioned(world, project)
    thread(world, "close", shared, "--yes", cwd=project, env={"CLAUDECODE": "1"})

    assert "" == injected(world, project)


def test_used_by_a_relay(live):
    """A relay reports its directory: a thread used as code there is mentioned there."""
    project = live.project()
    shared = begun(live)
    with Mcp(live, "code", project) as mcp:
        mcp.mark(f"`{shared}`")
        assert {} == mentioned(live, project)
        mcp.add(shared, f"From Chat {WORDS}", "decision", as_client="chat")

    assert {shared: 1} == mentioned(live, project)


def test_the_mention_beside_a_state(live):
    """The mention stands beside goal and now at every level, and the newest threads come first."""
    project = live.project()
    live.session(project).prompt("Add a discount code field")
    wait_for(lambda: "discount" in live.yaml(project))
    all_used = [used(live, project) for _ in range(7)]
    for shared in all_used:
        thread(live, "add", shared, "task", WORDS)
    for level in ("L0", "L1", "L2", "L3"):
        text = injected(live, project, "--level", level)
        assert "Add a discount code field" in text
        assert " and 2 more. get_handoff" in text
        assert all_used[:1:-1] == list(mentioned(live, project, "--level", level))


def test_the_brief_on_disk_follows(live):
    """With the daemon down a session is told the same, and the entries added since."""
    project = live.project()
    live.session(project).prompt("Add a discount code field")
    wait_for(lambda: "discount" in live.yaml(project))
    shared = used(live, project)
    thread(live, "add", shared, "task", WORDS)
    wait_for(lambda: f"{shared} (1)" in kept(live), what="the brief on disk has the entry")
    live.kill()
    assert {shared: 1} == mentioned(live, project)
    thread(live, "add", shared, "task", WORDS)
    for level in ("L0", "L1", "L2", "L3"):
        assert {shared: 2} == mentioned(live, project, "--level", level)
        assert "discount" in injected(live, project, "--level", level)
    thread(live, "read", shared, "--as", "code")
    assert {} == mentioned(live, project)
    assert "discount" in injected(live, project)
    live.start()
    thread(live, "add", shared, "task", WORDS)
    wait_for(lambda: f"{shared} (1)" in kept(live))
    thread(live, "read", shared, "--as", "code")

    wait_for(lambda: shared not in kept(live), what="the brief on disk says it was read")
    assert WORDS not in kept(live)


def test_the_brief_on_disk_of_a_project_without_state(live):
    """Without any other state the brief on disk comes and goes with the entries."""
    project = live.project()
    shared = used(live, project)
    thread(live, "add", shared, "task", WORDS)
    wait_for(lambda: f"{shared} (1)" in kept(live))
    live.restart()
    thread(live, "read", shared, "--as", "code")
    wait_for(lambda: shared not in kept(live))
    live.kill()

    assert "" == injected(live, project)
    assert not (project / ".flow-guardian").exists()


@pytest.mark.parametrize("how", ["unwanted", "unmarked", "tracked"])
def test_the_only_copy_of_a_state_stays(live, how):
    """If no checkpoint is written, using threads without a daemon leaves the state as it is."""
    project = live.project(git=how != "unmarked")
    if how == "unwanted":
        configure(live, '[checkpoint]\nwrite = "none"\n')
        live.restart()
    if how == "tracked":
        (project / ".flow-guardian").mkdir()
        (project / ".flow-guardian/handoff.yaml").write_text("goal: old\nnow: older\n")
        live.git(project, "add", "-f", ".flow-guardian")
    live.session(project).prompt("Add a discount code field")
    wait_for(lambda: "discount" in kept(live), what="the brief on disk has the state")
    live.kill()
    before = injected(live, project)
    assert "discount" in before
    made = thread(live, "create", "T", "W", "--as", "code", cwd=project).splitlines()[0]
    assert before == injected(live, project)
    thread(live, "add", made, "decision", "Go on")
    assert {made: 1} == mentioned(live, project)
    assert "discount" in injected(live, project)
    thread(live, "read", made, "--as", "code")

    assert before == injected(live, project)
    assert "discount" not in live.yaml(project)


def test_a_restart_forgets_no_use(live):
    """A used thread stays known: after a kill at any time the next daemon mentions it."""
    project = live.project()
    shared = used(live, project)
    live.kill()
    live.start()
    thread(live, "add", shared, "task", WORDS)
    live.kill()
    live.start()

    assert {shared: 1} == mentioned(live, project)


def test_a_pause_is_respected(live):
    """During a pause nothing is mentioned, and no use is noted; before and after it is."""
    project = live.project()
    before, during = used(live, project), begun(live)
    thread(live, "add", before, "task", WORDS)
    live.handoff("pause", ".", cwd=project)
    thread(live, "get", during, "--as", "code", cwd=project)
    assert {} == mentioned(live, project)
    live.handoff("unpause", ".", cwd=project)

    assert {before: 1} == mentioned(live, project)


@pytest.mark.parametrize("how", ["excluded", "disabled"])
def test_what_is_left_alone_stays_so(world, how):
    """In an excluded or disabled project no use is noted, and nothing is mentioned."""
    project = world.project()
    before, later = used(world, project), begun(world)
    thread(world, "add", before, "task", WORDS)
    assert {before: 1} == mentioned(world, project)
    if how == "excluded":
        configure(world, f'[projects]\nexclude = ["{project}"]\n')
        if world.process is not None:
            world.restart()
    else:
        (project / ".flow-guardian").mkdir()
        (project / ".flow-guardian/config.yaml").write_text("enabled: false\n")
    thread(world, "get", later, "--as", "code", cwd=project)

    assert [(before,)] == ask(world, "SELECT handoff_id FROM thread_uses")
    # A busy daemon is not waited for, and its earlier text is told once more.
    wait_for(lambda: injected(world, project) == "")
    assert {} == mentioned(world, project, "--level", "L2")
    if world.process is not None:
        world.kill()
        assert "" == injected(world, project)


def test_forget_erases_the_use(live):
    """`forget` names and erases the notes on a project; the thread itself stays."""
    project, other = live.project(), live.project("other")
    shared = used(live, project)
    thread(live, "get", shared, "--as", "code", cwd=other)
    thread(live, "add", shared, "task", WORDS)
    wait_for(lambda: f"{shared} (1)" in kept(live))
    planned = live.handoff("forget", cwd=project)
    assert "1 x note on a thread that was used here\n" in planned.stdout
    erased = live.handoff("forget", "--yes", "--json", cwd=project)

    assert 1 == json.loads(erased.stdout)["rows"]["thread_uses"]
    assert 1 == len(ask(live, "SELECT * FROM thread_uses"))
    assert {} == mentioned(live, project)
    assert {shared: 1} == mentioned(live, other)
    assert 2 == len(json.loads(thread(live, "get", shared, "--json"))["entries"])
    live.kill()
    assert "" == injected(live, project)


def test_a_damaged_store_costs_no_brief(sandbox):
    """Without a daemon an unreadable core.db leaves the rest of the brief as it is."""
    project = sandbox.project()
    sandbox.handoff("save", "-m", "half way through", cwd=project)
    sandbox.state.mkdir(parents=True, exist_ok=True)
    (sandbox.state / "core.db").write_bytes(b"no database" * 1000)

    assert "half way through" in injected(sandbox, project)


@pytest.mark.parametrize("how", ["link", "directory", "forbidden", "torn"])
def test_a_store_that_cannot_be_read_costs_no_brief(sandbox, how):
    """The same holds for a core.db that is no file, is unreadable, or is damaged further inside."""
    project = sandbox.project()
    sandbox.handoff("save", "-m", "half way through", cwd=project)
    begun(sandbox)
    path = sandbox.state / "core.db"
    if how == "link":
        path.rename(sandbox.state / "real.db")
        path.symlink_to("real.db")
    elif how == "directory":
        path.unlink()
        path.mkdir()
    elif how == "forbidden":
        path.chmod(0)
    else:
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    for level in ("L1", "L2"):
        assert "half way through" in injected(sandbox, project, "--level", level)
