"""Hostile repositories, generated: each would have git run a canary, or read foreign files.

A setting that names a program is put into the configuration in every possible way. Others are
hostile by their structure: a directory that looks like a bare repository, a `.git` that leads
elsewhere, a work tree that is not its own.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from repositories import Maker

HUGE = 9 << 20
# Names of filters and diff drivers, as they stand in a header and as an attribute.
DRIVERS = (
    (b"evil", b"evil"), (b"\xff", b"\xff"), (b"a=b", b"a=b"), (b'q\\"uote', b'q"uote'),
    (b"back\\\\slash", b"back\\slash"), (b"Ev.il", b"Ev.il"), (b"EVIL", b"EVIL"), (b"*", b"*"),
    (b"\xc3\x28", b"\xc3\x28"), ("ü".encode(), "ü".encode()), (b"\x01", b"\x01"), (b"<x>", b"<x>"),
    (b"a#b;c", b"a#b;c"), (b"-dash", b"-dash"), (b"x" * 300, b"x" * 300),
)  # fmt: skip
DRIVER_SETTINGS = (
    ("filter", "clean = {c}", True), ("filter", "process = {c}", True),
    ("filter", "smudge = {c}", False), ("filter", "clean = {c}\n\trequired = true", True),
    ("diff", "command = {c}", True), ("diff", "textconv = {c}", True), ("merge", "driver = {c}", False),
)  # fmt: skip
FETCH = (
    '[remote "origin"]\n\tpromisor = true\n\turl = "ext::{c}"\n[protocol "ext"]\n\tallow = always'
)
# `{c}` is the canary; the last word says whether a plain git runs it for status, diff or log.
SETTINGS = (
    ("[core]", "fsmonitor = {c}", True),
    ("[CoRe]", "FSMonitor = {c}", True),
    ("[core]", "hooksPath = {hooks}", True),
    ("[diff]", "external = {c}", True),
    ("[log]", "showSignature = true\n[gpg]\n\tprogram = {c}", True),
    ("[log]", 'showSignature = true\n[gpg "openpgp"]\n\tprogram = {c}', True),
    ("[gpg]", 'format = ssh\n[gpg "ssh"]\n\tprogram = {c}\n\tdefaultKeyCommand = {c}', False),
    ("[gpg]", 'format = x509\n[gpg "x509"]\n\tprogram = {c}', False),
    ("[core]", "pager = {c}", False),
    ("[pager]", "status = {c}\n\tlog = {c}\n\tdiff = {c}\n\tconfig = {c}", False),
    ("[core]", "editor = {c}", False),
    ("[sequence]", "editor = {c}", False),
    ("[core]", "sshCommand = {c}", False),
    ("[core]", "askPass = {c}", False),
    ("[core]", "gitProxy = {c}", False),
    ("[core]", "alternateRefsCommand = {c}", False),
    ("[credential]", "helper = !{c}", False),
    ('[credential "https://example.invalid"]', "helper = {c}", False),
    ("[alias]", "status = !{c}\n\tls-files = !{c}\n\tlog = !{c}\n\trev-list = !{c}", False),
    ('[alias "diff-tree"]', "command = !{c}", False),
    ("[uploadpack]", "packObjectsHook = {c}", False),
    ("[receive]", "procReceiveRefs = refs", False),
    ("[interactive]", "diffFilter = {c}", False),
    ('[remote "origin"]', "url = x\n\tvcs = {c}\n\treceivepack = {c}\n\tuploadpack = {c}", False),
    ('[url "ext::{c}"]', 'insteadOf = "https://"\n[protocol "ext"]\n\tallow = always', False),
    ('[submodule "sub"]', 'update = "!{c}"\n\tactive = true\n\turl = "ext::{c}"', False),
    ('[trailer "x"]', "command = {c}\n\tcmd = {c}", False),
    ('[hook "x"]', "command = {c}\n\tevent = post-index-change", False),
    ('[difftool "x"]', "cmd = {c}\n[diff]\n\ttool = x\n\tguitool = x", False),
    ('[mergetool "x"]', "cmd = {c}\n[merge]\n\ttool = x", False),
    ("[browser]", "cmd = {c}\n[web]\n\tbrowser = {c}", False),
    ("[trace2]", "eventTarget = {mark}\n\tnormalTarget = {mark}\n\tperfTarget = {mark}", False),
    ("[core]", 'attributesFile = {evil}/attributes\n[filter "evil"]\n\tclean = {c}', True),
    ("[core]", "worktree = /etc", False),
    ("[core]", "worktree = {victim}", False),
    ("[core]", "abbrev = ghp_{token}", False),
    ("[core]", "bare = true", False),
    ("[extensions]", f"partialClone = origin\n[core]\n\trepositoryFormatVersion = 1\n{FETCH}", True),
    ('[remote "origin"]', "promisor = true\n\turl = .\n\tuploadpack = {c}", True),
    ("[safe]", "directory = *\n[core]\n\tfsmonitor = {c}", True),
)  # fmt: skip


def plain(text: bytes, _evil: Path) -> bytes:
    return text


def included(text: bytes, evil: Path) -> bytes:
    (evil / "more").write_bytes(text)
    return f"[include]\n\tpath = {evil}/more\n".encode()


def included_twice(text: bytes, evil: Path) -> bytes:
    (evil / "most").write_bytes(text)
    (evil / "more").write_text("[include]\n\tpath = most\n")
    return f"[include]\n\tpath = {evil}/more\n".encode()


def included_for_the_directory(text: bytes, evil: Path) -> bytes:
    return included(text, evil).replace(b"[include]", b'[includeIf "gitdir:**"]')


def included_for_the_branch(text: bytes, evil: Path) -> bytes:
    return included(text, evil).replace(b"[include]", b'[includeIf "onbranch:**"]')


def included_for_a_remote(text: bytes, evil: Path) -> bytes:
    condition = b'[includeIf "hasconfig:remote.*.url:**"]'
    return b'[remote "x"]\n\turl = x\n' + included(text, evil).replace(b"[include]", condition)


def of_the_work_tree(text: bytes, evil: Path) -> bytes:
    (evil.parent / "repo/.git/config.worktree").write_bytes(text)
    return b"[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tworktreeConfig = true\n"


def behind_much_else(text: bytes, _evil: Path) -> bytes:
    lines = (b'[x "%s%d"]\n\ty\n' % (b"z" * 900, number) for number in range(HUGE // 900))
    return b"".join(lines) + text


def behind_many_settings(text: bytes, _evil: Path) -> bytes:
    lines = (b'[x "%d"]\n\ty = %s\n' % (number, b"z" * 900) for number in range(1000))
    return b"".join(lines) + text


def with_windows_lines(text: bytes, _evil: Path) -> bytes:
    return text.replace(b"\n", b"\r\n")


PLACES = (
    plain, included, included_twice, included_for_the_directory, included_for_the_branch,
    included_for_a_remote, of_the_work_tree, behind_much_else, behind_many_settings, with_windows_lines,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A hostile repository: where a session would be in it, and whether a plain git runs the canary."""

    name: str
    make: Callable[["World"], Path]
    is_run_by_git: bool


class World:
    """One repository with a canary beside it, made anew for each case."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.make = Maker(directory)
        self.evil, self.repo, self.mark = (directory / name for name in ("evil", "repo", "mark"))
        self.canary = directory / "canary"
        self.canary.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.mark}\n')
        self.canary.chmod(0o755)
        self._template()

    def _template(self) -> None:
        """Make a repository in which git has something to compare, to show and to verify."""
        path = self.make.repository("template")
        (path / "pyproject.toml").write_text("")
        self.make.commit(path, "Mark")
        tree = self.make.git(path, "write-tree").decode().strip()
        commit = self.directory / "commit"
        commit.write_text(
            f"tree {tree}\nparent {self.make.git(path, 'rev-parse', 'HEAD').decode().strip()}\n"
            "author A <a@example.invalid> 1800000000 +0000\n"
            "committer A <a@example.invalid> 1800000000 +0000\n"
            "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\nSigned\n"
        )
        words = ("hash-object", "-t", "commit", "-w", str(commit))
        signed = self.make.git(path, *words).decode().strip()
        self.make.git(path, "update-ref", "refs/heads/main", signed)
        self.make.git(path, "update-ref", "refs/remotes/origin/main", "HEAD~1")
        (path / "a.txt").write_text("b.txt\n")
        shutil.rmtree(path / ".git/hooks", ignore_errors=True)
        hooks = path / "hooks"
        hooks.mkdir()
        for name in (
            "post-index-change",
            "fsmonitor-watchman",
            "reference-transaction",
            "pre-commit",
        ):
            shutil.copy(self.canary, hooks / name)
        self.template, self.commit = path, signed

    def begin(self) -> Path:
        """Put a fresh copy in place, in which nothing has been run yet."""
        for path in (self.repo, self.evil):
            shutil.rmtree(path, ignore_errors=True)
        self.mark.unlink(missing_ok=True)
        shutil.copytree(self.template, self.repo, symlinks=True)
        self.evil.mkdir()
        return self.repo

    def filled(self, text: str) -> bytes:
        values = {
            "{c}": str(self.canary), "{hooks}": f"{self.repo}/hooks", "{mark}": str(self.mark),
            "{evil}": str(self.evil), "{victim}": str(self.template), "{token}": "x7Kq" * 9,
        }  # fmt: skip
        for name, value in values.items():
            text = text.replace(name, value)
        return text.encode()

    def configure(self, text: bytes, place: Callable[[bytes, Path], bytes] = plain) -> Path:
        path = self.repo / ".git/config"
        path.write_bytes(path.read_bytes() + place(text, self.evil))
        return self.repo


def with_setting(header: str, body: str, place: Callable) -> Callable[[World], Path]:
    def make(world: World) -> Path:
        if "attributesFile" in body:
            (world.evil / "attributes").write_text("* filter=evil\n")
        if "promisor" in body:
            _lose_an_object(world)
        return world.configure(world.filled(f"{header}\n\t{body}\n"), place)

    return make


def _lose_an_object(world: World) -> None:
    """Take away the blob of a file, which a partial clone would fetch."""
    name = world.make.git(world.repo, "rev-parse", "HEAD:a.txt").decode().strip()
    (world.repo / f".git/objects/{name[:2]}/{name[2:]}").unlink()


def with_driver(
    section: str, body: str, driver: tuple[bytes, bytes], attributes: str, place: Callable
) -> Callable[[World], Path]:
    def make(world: World) -> Path:
        written, named = driver
        (world.repo / attributes).write_bytes(b"* %s=%s\n" % (section.encode(), named))
        text = b'[%s "%s"]\n\t%s\n' % (section.encode(), written, world.filled(body))
        return world.configure(text, place)

    return make


def settings() -> Iterator[Case]:
    for (header, body, is_run), place in itertools.product(SETTINGS, PLACES):
        # A file that is included for the sake of a remote may name none.
        runs = is_run and not ("promisor" in body and place is included_for_a_remote)
        name = f"{header} {body.split(' ')[0]} {place.__name__}"
        yield Case(name, with_setting(header, body, place), runs)


def drivers() -> Iterator[Case]:
    for (section, body, is_run), driver in itertools.product(DRIVER_SETTINGS, DRIVERS):
        for attributes, place in (
            (".gitattributes", plain), (".git/info/attributes", included),
            (".gitattributes", behind_much_else),
        ):  # fmt: skip
            name = (
                f"{section} {body.split(' ')[0]} {driver[1][:20]!r} {attributes} {place.__name__}"
            )
            yield Case(name, with_driver(section, body, driver, attributes, place), is_run)


def _add_canary(world: World, path: Path) -> None:
    """Give a git directory a configuration that runs the canary."""
    with (path / "config").open("ab") as stream:
        stream.write(world.filled("[core]\n\tfsmonitor = {c}\n\tbare = false\n\tworktree = .\n"))
        stream.write(b'[filter "\xff"]\n' + world.filled("\tclean = {c}\n"))
    (path / ".gitattributes").write_bytes(b"* filter=\xff\n")
    (path / "a.txt").write_text("b.txt\n")


def embedded(below: str, *, marker: str, deep: bool) -> Callable[[World], Path]:
    def make(world: World) -> Path:
        inner = world.repo / below
        shutil.copytree(world.repo / ".git", inner)
        _add_canary(world, inner)
        (inner / marker).write_text("")
        if deep:
            (inner / "src").mkdir()
        return inner / "src" if deep else inner

    return make


def led_by_a_file(text: str) -> Callable[[World], Path]:
    def make(world: World) -> Path:
        git = world.evil / "git"
        shutil.move(world.repo / ".git", git)
        with (git / "config").open("ab") as stream:
            stream.write(world.filled("[core]\n\tfsmonitor = {c}\n\tworktree = {evil}/../repo\n"))
        (world.repo / ".git").write_bytes(world.filled(text))
        return world.repo

    return make


def linked(world: World) -> Path:
    """A work tree of a hostile repository."""
    tree = world.evil / "tree"
    world.make.git(world.repo, "worktree", "add", "-q", "-b", "auth", str(tree))
    world.configure(world.filled("[core]\n\tfsmonitor = {c}\n"))
    return tree


def linked_by_a_symlink(world: World) -> Path:
    shutil.move(world.repo / ".git", world.evil / "git")
    (world.repo / ".git").symlink_to(world.evil / "git")
    return world.configure(world.filled("[core]\n\tfsmonitor = {c}\n"))


def in_a_submodule(world: World) -> Path:
    sub = world.repo / "sub"
    shutil.copytree(world.repo / ".git", world.repo / ".git/modules/sub")
    sub.mkdir()
    (sub / ".git").write_text("gitdir: ../.git/modules/sub\n")
    with (world.repo / ".git/modules/sub/config").open("ab") as stream:
        stream.write(world.filled("[core]\n\tfsmonitor = {c}\n\tworktree = ../../../sub\n"))
    return sub


def around_a_submodule(world: World) -> Path:
    in_a_submodule(world)
    world.make.git(world.repo, "update-index", "--add", "--cacheinfo", f"160000,{world.commit},sub")
    (world.repo / ".gitmodules").write_bytes(
        world.filled('[submodule "sub"]\n\tpath = sub\n\turl = "ext::{c}"\n')
    )
    return world.repo


def around_an_untracked_repository(world: World) -> Path:
    inner = world.repo / "inner"
    shutil.copytree(world.template, inner)
    _add_canary(world, inner / ".git")
    return world.repo


def with_alternates(world: World) -> Path:
    info = world.repo / ".git/objects/info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_bytes(world.filled("{victim}/.git/objects\n/dev/zero\n../../..\n"))
    return world.configure(world.filled("[core]\n\talternateRefsCommand = {c}\n"))


def with_hooks(world: World) -> Path:
    shutil.copytree(world.repo / "hooks", world.repo / ".git/hooks")
    return world.repo


STRUCTURES = (
    *(
        Case(f"embedded {below} {marker} {deep}", embedded(below, marker=marker, deep=deep), True)
        for below, marker, deep in itertools.product(
            ("inner", "docs/inner", "inner.git", "a b", "ü"),
            ("pyproject.toml", "unmarked", ".flow-guardian"),
            (False, True),
        )
    ),
    *(
        Case(f"file {text!r}", led_by_a_file(text), is_run)
        for text, is_run in (
            ("gitdir: {evil}/git\n", True), ("gitdir: ../evil/git", True), ("gitdir: {evil}/git/\r\n", True),
            ("gitdir:{evil}/git", False), ("gitdir: {victim}/.git", False), ("gitdir: /dev/fd/0", False),
            ("gitdir: " + "../" * 2000, False), ("gitdir: \x1b[31m\n", False), ("nothing", False), ("", False),
        )
    ),
    Case("linked", linked, True),
    Case("linked by a symlink", linked_by_a_symlink, True),
    Case("in a submodule", in_a_submodule, True),
    Case("around a submodule", around_a_submodule, True),
    Case("around an untracked repository", around_an_untracked_repository, False),
    Case("alternates", with_alternates, False),
    Case("hooks", with_hooks, True),
)  # fmt: skip


def cases() -> list[Case]:
    return [*STRUCTURES, *settings(), *drivers()]


def is_run_by_git(world: World, path: Path) -> bool:
    """Return True if a plain git runs the canary there."""
    plain = Maker(world.directory)
    for name in ("GIT_OPTIONAL_LOCKS", "GIT_ALLOW_PROTOCOL"):
        del plain.environment[name]
    for words in (("status",), ("diff",), ("log", "-p", "-2"), ("diff", "HEAD~1")):
        plain.git(path, *words, check=False)
    return world.mark.exists()
