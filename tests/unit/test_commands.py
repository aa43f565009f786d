"""Slash commands in a session's state."""

from scripted_session import Told


def slash(told, name, arguments=""):
    return told.prompt(
        f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
        f"<command-args>{arguments}</command-args>"
    )


def names(told):
    return [(command.name, command.arguments) for command in told.folded().commands]


def test_a_persons_command_is_kept():
    """A command is kept with its arguments and its receipt."""
    told = slash(Told(), "conductor-newtrack", "login")

    assert [("conductor-newtrack", "login")] == names(told)
    assert "2026-03-01T09:00:01.000Z" == told.folded().commands[0].receipt.time


def test_the_assistants_own_commands_are_kept():
    """A command that the assistant runs is kept, in both shapes of the tool."""
    told = Told()
    told.use("Skill", skill="conductor-finish", args="auth")
    told.use("SlashCommand", command="/conductor-newtrack big login")

    assert [("conductor-finish", "auth"), ("conductor-newtrack", "big login")] == names(told)
    assert 0 == told.folded().prompts


def test_the_clients_commands_are_not():
    """A command for the client itself is not kept."""
    assert [] == names(slash(slash(Told(), "clear"), "model", "opus"))


def test_only_the_last_ones_are_kept():
    """The state does not grow with the number of commands."""
    told = Told()
    for number in range(30):
        slash(told, f"do-{number}")

    assert [f"do-{number}" for number in range(22, 30)] == [name for name, _ in names(told)]


def test_a_secret_behind_a_command_is_masked():
    """A secret in a command's arguments is masked like in any other text."""
    told = slash(Told(), "deploy", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")

    assert [("deploy", "[redacted:github-token]")] == names(told)


def test_handing_over_asks_for_no_work():
    """Our own commands count as messages and name tracks, but are no goal and no request."""
    told = Told()
    told.prompt("Round tax per line in the invoice module")
    for name in (
        "conductor-handoff",
        "handoffd:close",
        "create_handoff",
        "handoffd:handoff-thread",
    ):
        slash(told, name, "resume auth_20260301 and then some more words")
    slash(told, "handoffd:open")
    state = told.folded()

    assert 6 == state.prompts
    assert "Round tax per line in the invoice module" == state.work.request.text
    assert "Round tax per line in the invoice module" == state.last_prompt.text
    assert "conductor-handoff" == state.commands[0].name


def test_what_is_typed_behind_open_is_a_request():
    """/open continues earlier work, and text behind it is a request."""
    told = slash(Told(), "open", "round tax per line in the invoice module")

    assert "round tax per line in the invoice module" == told.folded().work.request.text
