"""Read the configuration: one TOML file, every key with a default, every error with a remedy."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from handoff.common.safe_parsing import load_toml
from handoffd.errors import ConfigError
from handoffd.redaction.redact import compile_patterns

_TOML_HINT = "Correct what stands there: a text has quotation marks around it, a list brackets."


def _refuse_boolean(value: object) -> object:
    """Return the value, or refuse a boolean: "30" may mean 30, but true does not mean 1."""
    if isinstance(value, bool):
        raise ValueError("a number is wanted")  # noqa: TRY004  pydantic reports a ValueError
    return value


def _require_below(path: str) -> str:
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ValueError("a directory below the project is wanted")
    return path


_Text = Annotated[str, Field(min_length=1, max_length=4096)]
_Below = Annotated[_Text, AfterValidator(_require_below)]
_Whole = Annotated[int, BeforeValidator(_refuse_boolean)]
_Number = Annotated[float, BeforeValidator(_refuse_boolean)]


class _Section(BaseModel):
    # A validator stays in memory, and is not needed without a file: the defaults are our own.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ClaudeConfig(_Section):
    """The directories of Claude Code, which hold its transcripts."""

    config_dirs: list[_Text] = []


class ProjectsConfig(_Section):
    """The projects that are followed, by globs on their root directory."""

    include: list[_Text] = ["*"]
    exclude: list[_Text] = []


class CheckpointConfig(_Section):
    """The projects in which handoff.yaml is written unasked."""

    write: Literal["marked", "none"] = "marked"
    write_tracked: bool = False


class TriggersConfig(_Section):
    """The time after which a session is handed off unasked."""

    idle_minutes: _Number = Field(default=30.0, ge=0, lt=24 * 60)
    notify: bool = False


class TracksConfig(_Section):
    """The tracks whose records are written unasked."""

    write: Literal["all", "none"] = "all"
    general: bool = False


class BeadsConfig(_Section):
    """The program that keeps the issues, as a name or a path; if empty, bd or else br.

    With `confine`, the program runs only if the kernel confines it to the project's database.
    """

    command: Annotated[str, Field(max_length=4096)] = ""
    confine: bool = True


class MailConfig(_Section):
    """An Agent Mail server, which gets every track record; an empty URL means none."""

    url: Annotated[str, Field(max_length=4096, pattern=r"^(https?://[^\s@]+)?$")] = ""
    token_file: Annotated[str, Field(max_length=4096)] = ""


class ContractConfig(_Section):
    """The directory of the handoffs, whether we write any, and where links to them are kept."""

    directory: _Text = "~/.claude/handoffs"
    write: Literal["all", "none"] = "all"
    also: Annotated[list[_Below], Field(max_length=10)] = []


class HooksConfig(_Section):
    """The text that the hooks of Claude Code print into a session."""

    headless: bool = True
    compact_instructions: Annotated[str, Field(max_length=4096)] = ""


class ThreadsConfig(_Section):
    """The handling of the threads between Chat and Code."""

    archive_on_close: bool = False
    refuse_secrets: bool = False


class HttpConfig(_Section):
    """MCP over HTTP, for clients that cannot start a program; off by default."""

    enabled: bool = False
    host: _Text = "127.0.0.1"
    port: _Whole = Field(default=8377, ge=1, le=65535)
    # Host names besides localhost that a request may use, as in `name` or `name:port`.
    allowed_hosts: list[_Text] = []
    allowed_origins: list[_Text] = []
    tls_certificate: Annotated[str, Field(max_length=4096)] = ""
    tls_key: Annotated[str, Field(max_length=4096)] = ""
    behind_trusted_proxy: bool = False
    secret_path: bool = False
    # The address by which clients on the web come; with it they may use OAuth.
    public_url: Annotated[str, Field(max_length=500, pattern=r"^(https://[a-z0-9.:\[\]-]+)?$")] = ""


class RedactConfig(_Section):
    """Patterns that are masked besides the secrets with a known form."""

    patterns: dict[_Text, _Text] = {}

    @field_validator("patterns")
    @classmethod
    def _check(cls, patterns: dict[str, str]) -> dict[str, str]:
        compile_patterns(patterns)
        return patterns


class PrivacyConfig(_Section):
    """The time for which derived data is kept."""

    retention_days: _Whole = Field(default=0, ge=0, le=36500)


class LogConfig(_Section):
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(_Section):
    claude: ClaudeConfig = ClaudeConfig.model_construct()
    projects: ProjectsConfig = ProjectsConfig.model_construct()
    checkpoint: CheckpointConfig = CheckpointConfig.model_construct()
    contract: ContractConfig = ContractConfig.model_construct()
    tracks: TracksConfig = TracksConfig.model_construct()
    triggers: TriggersConfig = TriggersConfig.model_construct()
    beads: BeadsConfig = BeadsConfig.model_construct()
    mail: MailConfig = MailConfig.model_construct()
    hooks: HooksConfig = HooksConfig.model_construct()
    threads: ThreadsConfig = ThreadsConfig.model_construct()
    http: HttpConfig = HttpConfig.model_construct()
    redact: RedactConfig = RedactConfig.model_construct()
    privacy: PrivacyConfig = PrivacyConfig.model_construct()
    log: LogConfig = LogConfig.model_construct()


@dataclass(slots=True)
class LiveConfig:
    """The configuration in force; a reload replaces `current` for all holders of this object."""

    current: Config


def load(path: str) -> Config:
    """Return the configuration; the defaults if the file is missing."""
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            data = load_toml(stream.read())
    except FileNotFoundError:
        return Config.model_construct()
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} cannot be read: {problem}.", "Check the file.") from None
    except ValueError as problem:  # also for a number with too many digits
        raise ConfigError(f"{path} is not valid TOML: {problem}.", _TOML_HINT) from None
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        raise ConfigError(*_explain(path, problem)) from None


def _explain(path: str, problem: ValidationError) -> tuple[str, str]:
    first = problem.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{path}: there is no setting `{key}`.", _nearest(first["loc"])
    if first["type"] in ("bool_type", "bool_parsing"):
        hint = "Write true or false, without quotation marks."
        return f"{path}: `{key}` must be true or false.", hint
    why = first["msg"].removeprefix("Value error, ")
    return (
        f"{path}: `{key}`: {why}.",
        "Correct the value, or remove the line: the default holds then.",
    )


def _nearest(place: tuple[int | str, ...]) -> str:
    """Return a hint about the key that may have been meant by an unknown one."""
    import difflib  # noqa: PLC0415  it is rarely needed

    *above, name = map(str, place)
    model: type[BaseModel] = Config
    for section in above:
        model = type(getattr(model(), section))
    known = list(model.model_fields)
    found = difflib.get_close_matches(name, known, 1)
    elsewhere = [section for section, field in Config() if name in type(field).model_fields]
    if found:
        return f"Did you mean `{'.'.join((*above, *found))}`?"
    if elsewhere:
        return f"It belongs below [{elsewhere[0]}]."
    return f"Remove it. There is: {', '.join(known)}."
