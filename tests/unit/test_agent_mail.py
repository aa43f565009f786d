"""Agent Mail with a test server: messages, limits, and tokens that are never disclosed."""

import json
import os
import stat
import threading
import time
import traceback

import pytest

from conftest import allowed
from handoffd.links import agent_mail, http_post, mail_keys
from handoffd.links.agent_mail import AgentMail, MailError, MailMessage
from handoffd.links.http_post import Limit, PostError, read_url
from mail_server import MailServer

TOKEN = "bearer-3f9a71c2"
ROOT = "/home/ann/shop"
THREAD = "handoff-auth_20251229"
BODY = "## Context\n\nhello\n\n**File:** conductor/handoffs/auth/a.md\n"
LETTER = (ROOT, THREAD, "[HANDOFF:epic-end] auth_20251229 - done", BODY, "high")
LIMIT_SECONDS = 0.4


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def keys(tmp_path):
    return tmp_path / "state" / "mail"


@pytest.fixture
def mail_to(token_file, keys):
    """Return our configuration for a server."""
    return lambda server, **more: AgentMail(server.url, str(token_file), str(keys), **more)


def refusal(mail, *words):
    """Send a message that cannot be sent, and return the error."""
    with pytest.raises(MailError) as caught:
        mail.send(*(words or LETTER))
    return caught.value


def kept(keys):
    return [json.loads(path.read_text()) for path in keys.iterdir()]


# Letters


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.parametrize("form", ["structured", "text", "wrapped", "events", "chunks"])
def test_send(mail_to, newer, form):
    """A message to ourselves is sent, with and without tokens and with every answer format."""
    with MailServer(newer=newer, form=form, bearer=TOKEN) as server:
        mail_to(server).send(*LETTER)

    [message] = server.messages
    assert [message["from"]] == message["to"]
    assert THREAD == message["thread_id"]
    assert "[HANDOFF:epic-end] auth_20251229 - done" == message["subject"]
    assert BODY == message["body_md"]
    assert "high" == message["importance"]
    assert ["ensure_project", "register_agent", "send_message"] == server.names()


def test_registers_once(mail_to, keys):
    """A project is registered once, with its path; after that a message is one request."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        mail_to(server).send(*LETTER)

    assert [{"human_key": ROOT}] == server.calls("ensure_project")
    [registration] = server.calls("register_agent")
    assert ("handoffd", "none") == (registration["program"], registration["model"])
    assert registration["name"].startswith("handoffd-")
    assert ["send_message", "send_message"] == server.names()[2:]
    [stored] = kept(keys)
    assert {(ROOT, stored["name"]): stored["registration_token"]} == server.agents


def test_projects_and_servers_are_apart(mail_to, keys):
    """Each project has its own registration on each server."""
    with MailServer() as one, MailServer() as two:
        mail_to(one).send(*LETTER)
        mail_to(one).send("/home/ann/other", *LETTER[1:])
        mail_to(two).send(*LETTER)

    assert 3 == len(kept(keys))
    assert 2 == len(one.agents)


def test_registration_is_private(mail_to, keys):
    """A registration is 0600 in a 0700 directory; its name and text do not disclose the project."""
    old = os.umask(0)
    try:
        with MailServer() as server:
            mail_to(server).send(*LETTER)
    finally:
        os.umask(old)

    [path] = keys.iterdir()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert 0o700 == stat.S_IMODE(keys.stat().st_mode)
    assert "shop" not in path.name + path.read_text()


def test_open_directory_is_closed(mail_to, keys):
    """A key directory that others may enter gets mode 0700 before a key is written."""
    keys.mkdir(parents=True)
    keys.chmod(0o755)
    with MailServer() as server:
        mail_to(server).send(*LETTER)

    assert 0o700 == stat.S_IMODE(keys.stat().st_mode)


def test_no_link_is_followed(mail_to, keys, tmp_path):
    """A symlink in place of a registration is neither read nor written through."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        [path] = keys.iterdir()
        victim = tmp_path / "victim"
        victim.write_text(json.dumps({"name": "cc-0", "registration_token": "x"}))
        path.unlink()
        path.symlink_to(victim)
        mail_to(server).send(*LETTER)

    assert {"name": "cc-0", "registration_token": "x"} == json.loads(victim.read_text())
    assert not path.is_symlink()
    assert 2 == len(server.agents)


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"name": ""}', '{"name": 3}', "[" * 4000])
def test_damaged_registration(mail_to, keys, damage):
    """A damaged registration is replaced."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        [path] = keys.iterdir()
        path.write_text(damage)
        mail_to(server).send(*LETTER)

    assert 2 == len(server.messages)
    assert [path] == list(keys.iterdir())


def test_keys_cannot_be_kept(mail_to, tmp_path):
    """If no key can be stored, the error names the directory, and no file is left behind."""
    (tmp_path / "state").write_text("a file")
    with MailServer() as server:
        problem = refusal(mail_to(server))

    assert str(tmp_path / "state" / "mail") in str(problem)
    assert [] == server.messages


@pytest.mark.parametrize("newer", [True, False])
def test_server_was_reset(mail_to, keys, newer):
    """If a server lost our registration, we register again, once, and the message is delivered."""
    with MailServer(newer=newer) as server:
        mail_to(server).send(*LETTER)
        server.forget()
        mail_to(server).send(*LETTER)

    assert 2 == len(server.messages)
    assert 2 == len(server.calls("register_agent"))
    # The name is kept, so that the inbox stays the same.
    assert 1 == len({message["from"] for message in server.messages})
    [stored] = kept(keys)
    assert list(server.agents.values()) == [stored["registration_token"]]


def test_name_is_taken_after_reset(mail_to, keys):
    """If our name is taken after a reset, we register under another name."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        [(project, name)] = server.agents
        server.agents = {(project, name): "somebody"}
        mail_to(server).send(*LETTER)

    assert name != server.messages[1]["from"]
    assert [server.messages[1]["from"]] == [one["name"] for one in kept(keys)]


def test_server_picks_a_name(mail_to):
    """If a server accepts no name of ours, we use the name that it assigns."""
    with MailServer() as server:
        server.reserved = {"*"}
        mail_to(server).send(*LETTER)

    assert "BlueLake" == server.messages[0]["from"]


def test_registering_again_is_not_repeated(mail_to):
    """A refusal that registration does not cure is reported, and we register only once more."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        server.agents = {}
        server.register_agent = lambda **_: {"name": "ghost-1", "registration_token": "t-ghost"}
        problem = refusal(mail_to(server))

    assert "Agent 'ghost-1' is not registered in this project" == str(problem)
    assert 2 == len(server.calls("send_message")) - 1


def test_secrets_in_a_refusal_are_masked(mail_to):
    """A server's error text may contain any secret: it is masked in our error."""
    token = "ghp_" + "b7Xq2LmZ9rTn4KdVw8YhPc3sJf6GaEu1oBiR"
    with MailServer(mode="refuse") as server:
        server.refusal = f"{'x' * 280} {token}"
        problem = refusal(mail_to(server))

    assert token[:12] not in str(problem)
    assert "[redacted:" in str(problem)


def test_other_refusals_do_not_register(mail_to):
    """A refusal for another reason than our identity leaves our registration unchanged."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)
        server.mode = "refuse"
        problem = refusal(mail_to(server))

    assert ("the database is on fire", False) == (str(problem), problem.final)
    assert 1 == len(server.calls("register_agent"))


def test_first_contact(mail_to):
    """If a server requires a contact before a message, we request it and accept it ourselves."""
    with MailServer(contact=True) as server:
        mail_to(server).send(*LETTER)

    assert 1 == len(server.messages)
    assert [True] == [given["accept"] for given in server.calls("respond_contact")]


def test_contact_without_the_tools(mail_to):
    """A refused contact without the tools to fix it is reported."""
    with MailServer(newer=False, contact=True) as server:
        assert "Contact request required" in str(refusal(mail_to(server)))


def test_two_at_once(mail_to, keys):
    """Two first messages of a project at the same time share one registration."""
    with MailServer(mode="slow") as server:
        server.slow_seconds = 0.05
        mail = mail_to(server)
        threads = [threading.Thread(target=mail.send, args=LETTER) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert 4 == len(server.messages)
    assert 1 == len(server.agents)


def test_without_keys_directory(token_file):
    """A message is sent even without a directory for keys."""
    with MailServer() as server:
        AgentMail(server.url, str(token_file)).send(*LETTER)

    assert 1 == len(server.messages)


def test_what_is_sent_fits(mail_to):
    """A subject is one line of at most 200 characters, and the importance is a known one."""
    with MailServer() as server:
        mail_to(server).send(ROOT, THREAD, "a\nb\r " + "c" * 300, "half \ud83d pair", "enormous")

    [message] = server.messages
    assert "a b " + "c" * 196 == message["subject"]
    assert "normal" == message["importance"]
    assert "half ? pair" == message["body_md"]


@pytest.mark.parametrize("thread", ["", "-a", "handoff:x", "a b", "a" * 129, "a\n", "é"])
def test_thread_that_does_not_fit(mail_to, thread):
    """A thread name that the server would refuse is not sent."""
    with MailServer() as server:
        assert refusal(mail_to(server), ROOT, thread, "s", "b", "high").final

    assert [] == server.seen


@pytest.mark.parametrize("root", ["shop", "", "/home/\udcff"])
def test_project_that_has_no_name(mail_to, root):
    """A project without an absolute UTF-8 path is not sent."""
    with MailServer() as server:
        assert refusal(mail_to(server), root, THREAD, "s", "b", "high").final

    assert [] == server.seen


@pytest.mark.parametrize(
    ("expected", "track"),
    [
        ("handoff-auth-system_20251229", "auth-system_20251229"),
        ("handoff-general", "general"),
        ("handoff-general", ""),
        ("handoff-my-workflow-3-lzks", "my-workflow:3-lzks"),
        ("handoff-a-b-", "a b/"),
        ("handoff-" + "x" * 120, "x" * 500),
    ],
)
def test_thread_id(expected, track):
    """Every track has a thread name that the server accepts."""
    assert expected == agent_mail.thread_id(track)
    assert agent_mail._THREAD.fullmatch(expected)


# Idempotency


def test_sent_again_only_if_it_is_not_there(mail_to):
    """A second attempt sends nothing if a message about the same file has arrived."""
    with MailServer() as server:
        mail = mail_to(server)
        assert mail.send_once(*LETTER, again=True)
        assert not mail.send_once(*LETTER, again=True)
        other = BODY.replace("a.md", "b.md")
        assert mail.send_once(*LETTER[:3], other, "high", again=True)
        assert mail.send_once(ROOT, "handoff-other", *LETTER[2:], again=True)
        assert mail.send_once(*LETTER, again=False)

    assert 4 == len(server.messages)


def test_answer_was_lost(mail_to):
    """If the answer to a message was lost, the second attempt finds the message."""
    with MailServer() as server:
        mail = mail_to(server, limit_seconds=LIMIT_SECONDS)
        server.mode = "lost"
        assert not refusal(mail).final
        server.mode = ""
        assert not mail.send_once(*LETTER, again=True)

    assert 1 == len(server.messages)


# Reading


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.parametrize("form", ["structured", "text", "wrapped", "events"])
def test_thread(mail_to, newer, form):
    """A thread is returned with bodies, the newest message first, without other threads."""
    with MailServer(newer=newer, form=form) as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        me = server.messages[0]["from"]
        server.messages.clear()
        at = "2025-12-29T10:0{}:00.123456+07:00"
        server.deliver(me, THREAD, "[HANDOFF:idle] a - one", "one", created=at.format(1), to=[me])
        server.deliver(me, THREAD, "[HANDOFF:idle] a - two", "two", created=at.format(2), to=[me])
        server.deliver(me, "handoff-b", "[HANDOFF:idle] b - x", "x", created=at.format(3), to=[me])
        server.deliver("cc-0", THREAD, "[HANDOFF:idle] a - theirs", "HANDOFF", created=at.format(4))
        found = mail.thread(ROOT, THREAD)
        first = mail.thread(ROOT, THREAD, 1)

    created = "2025-12-29T03:0{}:00.123Z"
    assert [
        MailMessage("4", THREAD, "[HANDOFF:idle] a - theirs", created.format(4), "", "cc-0"),
        MailMessage("2", THREAD, "[HANDOFF:idle] a - two", created.format(2), "two", me),
        MailMessage("1", THREAD, "[HANDOFF:idle] a - one", created.format(1), "one", me),
    ] == found
    assert found[:1] == first


def test_handoffs(mail_to):
    """All handoff threads are returned, and no other message of the inbox."""
    with MailServer() as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        mail.send(ROOT, "handoff-b", *LETTER[2:])
        mail.send(ROOT, "lunch", *LETTER[2:])
        found = mail.handoffs(ROOT)

    assert ["handoff-b", THREAD] == [message.thread_id for message in found]


def test_empty_thread(mail_to):
    """A project without mail has no messages, for every form of an empty list."""
    for form in ("structured", "text", "wrapped"):
        with MailServer(form=form) as server:
            assert [] == mail_to(server).handoffs(ROOT)


@pytest.mark.parametrize("missing", ["search_messages", "fetch_inbox"])
def test_one_way_to_read_is_enough(mail_to, missing):
    """A server with only one of the two tools that list messages is read with that tool."""
    with MailServer() as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        server.tools = {name: server.tools[name] for name in server.tools if name != missing}
        [message] = mail.thread(ROOT, THREAD)

    assert (BODY if missing == "search_messages" else "") == message.body
    assert [] == server.calls(missing)


def test_nothing_to_read_with(mail_to):
    """A server without a tool that lists messages is reported as such."""
    with MailServer() as server:
        server.tools = {}
        with pytest.raises(MailError, match="no tool that lists messages"):
            mail_to(server).handoffs(ROOT)


def test_search_fails(mail_to):
    """If the server's search fails, the inbox is read instead."""
    with MailServer() as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        server.search_messages = lambda: None  # refuses every argument
        server.tools = {**server.tools, "search_messages": []}
        assert [BODY] == [message.body for message in mail.thread(ROOT, THREAD)]


def test_full_inbox(mail_to):
    """An inbox that is too long is read in part."""
    with MailServer() as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        server.mode = "huge_inbox"
        assert [BODY] == [message.body for message in mail.thread(ROOT, THREAD)]


@pytest.mark.parametrize(
    ("expected", "created"),
    [
        ("2025-12-29T03:00:00.000Z", "2025-12-29T10:00:00+07:00"),
        ("2025-12-29T10:00:00.500Z", "2025-12-29T10:00:00.5"),
        ("2001-09-09T01:46:40.000Z", 1_000_000_000),
        ("", "yesterday"),
        ("", None),
        ("", {}),
        ("", 1e300),
        ("", "nan"),
    ],
)
def test_times(expected, created):
    """A time is given in UTC to the millisecond; an invalid time is empty."""
    assert expected == agent_mail._moment(created)


@pytest.mark.parametrize(
    "answer", [None, "text", 3, {}, {"messages": None}, [1, None, "x", []], {"messages": [{}]}]
)
def test_strange_lists(answer):
    """An answer without a list of messages gives no messages."""
    assert [] == agent_mail._messages(answer)


# Servers that misbehave


@pytest.mark.parametrize("mode", ["slow", "hang", "drip", "drip_head", "drip_events"])
def test_time_limit(mail_to, mode):
    """A call as a whole ends within its time limit, however slowly the server answers."""
    with MailServer(mode=mode) as server:
        # Each answer is in time, but all of them together are not.
        server.slow_seconds = LIMIT_SECONDS / 2.5
        started = time.monotonic()
        problem = refusal(mail_to(server, limit_seconds=LIMIT_SECONDS))
        took = time.monotonic() - started

    assert LIMIT_SECONDS <= took < LIMIT_SECONDS + allowed(0.4)
    assert not problem.final
    assert f"127.0.0.1:{server.port} took longer than 0.4 s" == str(problem)


def test_limit_is_three_seconds():
    """By default a call may take 3 s."""
    assert 3.0 == AgentMail("http://127.0.0.1/").limit_seconds


@pytest.mark.parametrize(
    ("mode", "words", "final"),
    [
        ("fault", "answered with an error (500)", False),
        ("garbage", "does not answer as an MCP server does", False),
        ("no_http", "does not answer as a web server does", False),
        ("cut", "hung up in the middle", False),
        ("hang_up", "hung up in the middle", False),
        ("huge", "longer than 1 MiB", False),
        ("refuse", "the database is on fire", False),
        ("no_method", "the database is on fire", False),
        ("missing", "check the URL", True),
        ("redirect", "not followed", True),
    ],
)
def test_misbehaving(mail_to, mode, words, final):
    """Every misbehaviour of a server becomes a one-line error that knows if a retry makes sense."""
    with MailServer(mode=mode) as server:
        problem = refusal(mail_to(server))

    assert words in str(problem)
    assert final == problem.final
    assert "\n" not in str(problem)


def test_huge_answer_is_not_read(mail_to):
    """An endless answer is abandoned after 1 MiB."""
    with MailServer(mode="huge") as server:
        started = time.monotonic()
        refusal(mail_to(server))
        assert time.monotonic() - started < allowed(1)


def test_nobody_listens(mail_to):
    """If no server listens, the error says so at once."""
    with MailServer() as server:
        pass
    problem = refusal(mail_to(server))

    assert f"127.0.0.1:{server.port} cannot be reached: Connection refused" == str(problem)
    assert not problem.final


def test_no_mail():
    """Without a URL no mail is sent."""
    assert "no Agent Mail is configured" == str(refusal(AgentMail("")))


def test_redirect_is_not_followed(mail_to):
    """Nothing is sent to the target of a redirect, above all not the token."""
    with MailServer() as elsewhere, MailServer(mode="redirect") as server:
        server.redirect_to = elsewhere.url
        refusal(mail_to(server))

    assert [] == elsewhere.seen
    assert 1 == len(server.seen)


def test_no_proxy(mail_to, monkeypatch):
    """A proxy in the environment is not used."""
    with MailServer() as server, MailServer() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        mail_to(server).send(*LETTER)

    assert [] == proxy.seen


def test_session_required(mail_to):
    """A server that requires a session is initialized once, and later calls carry the session."""
    with MailServer() as server:
        server.session_id = "s-12345"
        mail_to(server).send(*LETTER)

    assert 1 == len(server.messages)
    assert 1 == server.names().count("initialize")
    sessions = {name: headers.get("Mcp-Session-Id") for name, _, headers in server.seen}
    assert {"initialize": None} == {n: s for n, s in sessions.items() if s != "s-12345"}
    assert "notifications/initialized" in sessions


def test_headers(mail_to):
    """A request has headers for the accepted types, the client's name and the host."""
    with MailServer() as server:
        mail_to(server).send(*LETTER)

    headers = server.seen[0][2]
    assert "application/json, text/event-stream" == headers["Accept"]
    assert "application/json" == headers["Content-Type"]
    assert f"Bearer {TOKEN}" == headers["Authorization"]
    assert f"127.0.0.1:{server.port}" == headers["Host"]


def test_name_of_a_host(mail_to, token_file, keys):
    """A host may be given by name."""
    with MailServer() as server:
        AgentMail(f"http://localhost:{server.port}/mcp", str(token_file), str(keys)).send(*LETTER)

    assert 1 == len(server.messages)


def test_slow_resolver(mail_to, monkeypatch):
    """A name that does not resolve takes no longer than the limit."""
    answered = threading.Event()

    def look_up(host, port, **more):
        if "flags" in more:
            raise http_post.socket.gaierror
        answered.wait(60)
        return []

    monkeypatch.setattr(http_post.socket, "getaddrinfo", look_up)
    started = time.monotonic()
    problem = refusal(AgentMail("http://mail.invalid/mcp/", limit_seconds=0.1))
    answered.set()

    assert time.monotonic() - started < allowed(0.5)
    assert "mail.invalid:80 took longer than 0.1 s" == str(problem)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/", "file:///etc/passwd", "127.0.0.1:8765", "http://", "http://[::1",
        "http://a:99999/", "http://a:b/", "http://ann:secret@127.0.0.1/", "http://é.example/",
        "//127.0.0.1/mcp/", "http://a b/",
    ],
)  # fmt: skip
def test_bad_urls(url):
    """Only plain http and https URLs are used; a bad URL is not repeated in the error."""
    problem = refusal(AgentMail(url))

    assert problem.final
    assert "secret" not in str(problem)


def test_urls():
    """A URL is split into its parts, and no path can become a header."""
    assert (False, "127.0.0.1", 8765, "/mcp/") == read_url("http://127.0.0.1:8765/mcp/")
    assert (True, "mail.example", 443, "/a%20b?c=d") == read_url("https://MAIL.example/a b?c=d#e")
    assert (False, "::1", 80, "/") == read_url("http://[::1]")
    assert "[::1]:80" == read_url("http://[::1]").shown
    assert "\n" not in read_url("http://a/b\r\nX: y").path


# Tokens


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620])
def test_token_that_others_may_read(mail_to, token_file, mode):
    """A token file that others may read is refused with the remedy, before anything is sent."""
    token_file.chmod(mode)
    with MailServer() as server:
        problem = refusal(mail_to(server))

    assert f"others may read the token: chmod 600 {token_file}" == str(problem)
    assert problem.final
    assert [] == server.seen


def test_token_is_read_anew(mail_to, token_file):
    """A changed token is used from the next call on."""
    with MailServer(bearer="second") as server:
        assert refusal(mail_to(server)).final
        token_file.write_text("second")
        mail_to(server).send(*LETTER)

    assert 1 == len(server.messages)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"a\r\nX-Evil: 1", b"\xff\xfe", b"a\x00b"]
)
def test_token_that_is_none(mail_to, token_file, content):
    """A token that does not fit into a header is refused, and not repeated."""
    token_file.write_bytes(content)
    with MailServer() as server:
        problem = refusal(mail_to(server))

    assert "must hold one token and nothing else" in str(problem)
    assert "Evil" not in str(problem)
    assert [] == server.seen


def test_token_file_is_strange(mail_to, token_file, tmp_path):
    """A missing token file, a directory or a pipe is an error and does not block."""
    token_file.unlink()
    with MailServer() as server:
        assert "cannot be read: No such file" in str(refusal(mail_to(server)))
        os.mkfifo(token_file, 0o600)
        assert "is not a file of yours" in str(refusal(mail_to(server)))
        token_file.unlink()
        token_file.mkdir()
        assert "is not a file of yours" in str(refusal(mail_to(server)))


def test_token_of_somebody_else(token_file, monkeypatch):
    """A token file of another user is not used."""
    monkeypatch.setattr(mail_keys.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PostError, match="not a file of yours"):
        mail_keys.read_token(str(token_file))


@pytest.mark.parametrize("status_or_text", ["401", "fault", "tool", "rpc"])
def test_tokens_are_never_told(mail_to, keys, status_or_text):
    """No error contains a token, although the server repeats the tokens in its answer."""
    with MailServer(bearer=TOKEN) as server:
        mail = mail_to(server)
        mail.send(*LETTER)
        [registration] = kept(keys)
        secret = registration["registration_token"]
        server.refusal = f"Bearer {TOKEN}\x1b[31m for {secret}: wrong " + TOKEN * 100
        server.bearer = "other" if status_or_text == "401" else TOKEN
        server.mode = {"fault": "fault", "tool": "refuse", "rpc": "no_method"}.get(
            status_or_text, ""
        )
        problem = refusal(mail)

    told = "".join(traceback.format_exception(problem)) + repr(problem) + repr(mail)
    for token in (TOKEN, secret):
        assert token[:8] not in told
    assert problem.__cause__ is None
    assert problem.__suppress_context__
    assert "\x1b" not in str(problem)


def test_wrong_token(mail_to):
    """A wrong token is a final error with a remedy."""
    with MailServer(bearer="other") as server:
        problem = refusal(mail_to(server))

    assert problem.final
    assert "put the one it expects into the token file (401)" in str(problem)


def test_long_complaint(mail_to):
    """A server's long error text is shortened to one line."""
    with MailServer(mode="refuse") as server:
        server.refusal = "x\n" * 100_000
        assert len("") + 300 == len(str(refusal(mail_to(server))))


def test_https_asks_for_a_certificate(mail_to, token_file, keys):
    """An https URL is used with TLS: a server without TLS gets no token."""
    with MailServer() as server:
        url = server.url.replace("http:", "https:")
        problem = refusal(AgentMail(url, str(token_file), str(keys)))

    assert "cannot be reached" in str(problem)
    assert [] == server.seen


def test_limit_that_is_over():
    """An expired time limit raises at once."""
    with pytest.raises(TimeoutError):
        Limit(0).remaining()
