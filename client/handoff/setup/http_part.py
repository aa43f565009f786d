"""The part `http`: the packages for it, the token, and its switch in our configuration."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from handoff import local
from handoff.client import Client
from handoff.common import paths, programs
from handoff.common.errors import HandoffError, NotRunningError
from handoff.setup import toml_edit
from handoff.setup.foreign_files import Draft
from handoff.setup.manifest import Manifest
from handoff.setup.plan import SetupAction, SetupPlan

TABLE = "http"
INSTALL_SECONDS = 600.0
OPEN_SECONDS = 20.0
_PUBLIC_URL = re.compile(r"https://[a-z0-9.:\[\]-]+")


def plan_http(plan: SetupPlan) -> None:
    """Plan the packages, the token and the settings. The daemon opens HTTP when it reloads."""
    found = _look()
    wanted = _requirements(found)
    if not all(map(found.meets, wanted)):
        plan.actions.append(_install_action(plan.noted, found, wanted))
    if not os.path.lexists(_token_file()):
        plan.actions.append(_token_action())
    _plan_settings(plan)


def checked_url(given: str) -> str:
    """Return a public address in the form of the configuration."""
    url = given.strip().rstrip("/").lower()
    if not _PUBLIC_URL.fullmatch(url):
        raise HandoffError(
            f"{given!r} is no public address.", "Such as: --public-url https://bridge.example.org"
        )
    return url


def _plan_settings(plan: SetupPlan) -> None:
    draft = plan.draft(paths.config_file(), "config")
    wanted: dict[str, Any] = {"enabled": True}
    if plan.public_url is not None:
        wanted["public_url"] = plan.public_url
    before = toml_edit.load(draft.text).get(TABLE, {})
    changed = {key: value for key, value in wanted.items() if before.get(key) != value}
    for key, value in changed.items():
        draft.text = toml_edit.put(draft.text, TABLE, key, value)

    def note(noted: Manifest) -> None:
        known = noted.http.setdefault("settings", {})
        for key, value in changed.items():
            first = known[key][0] if key in known else before.get(key)
            known[key] = [first, value]

    if changed:
        plan.actions.append(SetupAction("", lambda: None, note=note))


def take_settings(noted: Manifest, draft: Draft) -> None:
    """Put the former values back into a configuration that was changed since."""
    now = toml_edit.load(draft.text).get(TABLE, {})
    for key, (before, ours) in noted.http.get("settings", {}).items():
        if now.get(key) == ours:
            with contextlib.suppress(HandoffError):
                draft.text = toml_edit.put(draft.text, TABLE, key, before)


# The packages

# The client runs without `site`, so it does not see all packages of its environment by itself.
_LOOK = """
import importlib.metadata, importlib.util, json, sys
found = [d for d in importlib.metadata.distributions() if d.metadata["Name"]]
print(json.dumps([
    sys.prefix,
    importlib.util.find_spec("pip") is not None,
    {d.metadata["Name"]: d.version for d in found},
    {d.metadata["Name"]: d.requires for d in found},
]))
"""


@dataclass(frozen=True)
class Environment:
    """The environment of handoffd: its packages by name, with versions and requirements."""

    prefix: str
    has_pip: bool
    versions: dict[str, str]
    requires: dict[str, list[str]]

    def meets(self, requirement: str) -> bool:
        version = self.versions.get(_name(requirement))
        bounds = re.findall(r"(>=|<)\s*([\d.]+)", requirement)
        return version is not None and all(
            (_numbers(version) >= _numbers(bound)) == (sign == ">=") for sign, bound in bounds
        )

    def needed_without(self, going: set[str]) -> set[str]:
        """Return the names that the packages that stay require; an extra is no requirement."""
        staying = [lines for name, lines in self.requires.items() if name not in going]
        return {
            _name(line)
            for lines in staying
            for line in lines
            if "extra" not in line.partition(";")[2]
        }


def _look() -> Environment:
    prefix, has_pip, versions, requires = json.loads(_run(sys.executable, "-P", "-c", _LOOK))
    return Environment(
        prefix,
        has_pip,
        {_name(name): version for name, version in versions.items()},
        {_name(name): lines or [] for name, lines in requires.items()},
    )


def _requirements(found: Environment) -> list[str]:
    """Return the requirements of the extra `http`, as our package names them."""
    lines = found.requires.get("handoffd", [])
    return [
        line.partition(";")[0].strip() for line in lines if re.search(r"extra\s*==\s*.http\b", line)
    ]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


def _install_action(noted: Manifest, found: Environment, wanted: list[str]) -> SetupAction:
    words = _installer(found, "install")

    def note(noted: Manifest) -> None:
        noted.http.setdefault("packages_before", found.versions)

    def install() -> None:
        _run(*words, *wanted)
        noted.http["packages_after"] = _look().versions
        noted.save()

    title = f"install into {found.prefix}: {', '.join(wanted)}"
    return SetupAction(title, install, lambda: _remove_packages(noted), note)


def _added_packages(noted: Manifest, found: Environment) -> list[str]:
    """Return the packages that came with ours, and that nothing else needs by now."""
    before = noted.http.get("packages_before", found.versions)
    after = noted.http.get("packages_after", found.versions)
    going = (set(after) - set(before)) & set(found.versions)
    while kept := going & found.needed_without(going):
        going -= kept
    return sorted(going)


def _changed_packages(noted: Manifest, found: Environment) -> list[str]:
    """Return the former versions of the packages that the installation has replaced."""
    after = noted.http.get("packages_after", found.versions)
    return [
        f"{name}=={version}"
        for name, version in noted.http.get("packages_before", {}).items()
        if name != "handoffd" and after.get(name) == found.versions.get(name) not in (None, version)
    ]


def _remove_packages(noted: Manifest) -> None:
    found = _look()
    if names := _added_packages(noted, found):
        _run(*_installer(found, "uninstall"), *names)
    if names := _changed_packages(noted, found):
        _run(*_installer(found, "install"), *names)


def _installer(found: Environment, what: str) -> list[str]:
    """Return the command that installs into, or uninstalls from, our own environment."""
    if found.has_pip:
        more = ["--yes"] if what == "uninstall" else ["--quiet"]
        pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        return [*pip, what, *more]
    uv = programs.find("uv")
    if uv is not None:
        return [uv, "pip", what, "--python", sys.executable]
    raise HandoffError(
        f"Neither pip is in {found.prefix}, nor is uv on PATH: mcp cannot be installed.",
        "Install handoffd with its extra: pipx inject handoffd 'mcp>=2.3,<3'",
    )


def _run(*words: str) -> str:
    given = programs.environment()
    environment = {name: value for name, value in given.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(  # noqa: S603  our interpreter or uv, and names of packages
            words,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HandoffError(f"`{words[0]}` did not end within {INSTALL_SECONDS:g} s.") from None
    except OSError as problem:
        raise HandoffError(f"{words[0]} cannot be started: {problem.strerror}.") from None
    if done.returncode != 0:
        said = local.daemon_code().masked(done.stderr or done.stdout).strip()
        raise HandoffError(f"`{' '.join(words)}` failed.", "\n".join(said.splitlines()[-5:]))
    return done.stdout


# The token


def _token_file() -> str:
    return f"{paths.state_dir()}/http-token"


def _token_action() -> SetupAction:
    def make() -> None:
        local.daemon_code().token(rotate=False)

    def note(noted: Manifest) -> None:
        noted.http["token"] = True

    return SetupAction(f"make the token {_token_file()}", make, remove_token, note)


def remove_token() -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_token_file())


def plan_removal(plan: SetupPlan) -> None:
    """Plan the way back; the settings are restored with the configuration."""
    noted = plan.noted
    if "packages_before" in noted.http:
        found = _look()
        names = [*_added_packages(noted, found), *_changed_packages(noted, found)]
        if names:
            title = f"restore the packages in {found.prefix}: {', '.join(names)}"
            plan.actions.append(SetupAction(title, lambda: _remove_packages(noted)))
    if noted.http.get("token") and os.path.lexists(_token_file()):
        plan.actions.append(SetupAction(f"remove {_token_file()}", remove_token))


# The lines for each client


def describe() -> str:
    """Return the address, and the line for each client."""
    settings = local.daemon_code().http_settings()
    url, public = settings["url"], settings["public_url"]
    lines = [
        _wait_until_open() or f"HTTP is on: {url}",
        "  Claude Code:",
        f"    claude mcp add --scope user --transport http handoffd {url} \\",
        '      --header "Authorization: Bearer $(handoff token show)"',
        "  Claude on the web, on the phone and in Desktop, by OAuth:",
    ]
    if public:
        lines += [
            f"    Settings, Connectors, Add custom connector: {public}/mcp",
            "    A page shows a code then. Approve it here: handoff token approve CODE",
        ]
    else:
        lines += [
            f"    They come from outside. Lead a public name with TLS to {url.rpartition('/')[0]}",
            "    (a tunnel or a reverse proxy), then say that name:",
            "    handoff setup --with http --public-url https://NAME",
        ]
    lines.append("  Any other client: `handoff token show` prints the token for its header.")
    return "".join(f"{line}\n" for line in lines)


def _wait_until_open() -> str:
    """Return an empty text when HTTP is open, or why it is not."""
    deadline = time.monotonic() + OPEN_SECONDS
    while True:
        try:
            found = Client().call("status")
        except NotRunningError:
            return "HTTP will be open when handoffd runs: handoff up"
        if found["data"]["http"]:
            return ""
        why = [each["text"] for each in found["warnings"] if each["code"] == "http_off"]
        if time.monotonic() > deadline:
            return why[0] if why else "HTTP is not open yet. See: handoff status"
        time.sleep(0.1)
