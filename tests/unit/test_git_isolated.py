"""git on a repository's data alone gives the same answers as git in the repository."""

import os
import re
import shutil
import subprocess
import tempfile
import time
import tracemalloc
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import allowed
from handoffd.links import git, git_config, git_discovery, git_process, repository
from handoffd.projects import project_root
from repositories import KINDS, Maker


@pytest.fixture
def make(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Maker(home)


@pytest.mark.parametrize("kind", KINDS)
def test_same_as_git(make, kind):
    """The status equals git's own, byte for byte, for every kind of repository."""
    path = KINDS[kind](make)
    words = (*git.STATUS, "--branch", "--", ".")

    ours = git_process.ask(str(path), time.monotonic() + 10, *words)
    assert make.git(path, *words) == ours
    assert b"# branch.oid" in ours


# Versions of git differ in keeping a tab.
SPACE = re.compile(r"[\t\r]")
PIECES = st.sampled_from(
    ["[core]", "[Core]", '[filter "a=b"]', '[branch "x\\"y\\\\z"]', "[a.B]", "[]", "[bad", "name", "Na-me2",
     "=", " = ", "\t", " ", "\n", "\r\n", "\r", "\\\n", "\\n", "\\x", '"', "#", ";", "value", "ü", "true", "9"]
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=14))
def test_configuration_is_read_as_git_reads_it(pieces):
    """A file that git understands gives us the same settings, and any other file is refused."""
    data = "".join(["[core]\n", *pieces]).encode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        done = subprocess.run(
            ["git", "config", "--file", file.name, "--no-includes", "--list", "-z"],
            capture_output=True, check=False,
        )  # fmt: skip
    theirs = defaultdict(list)
    for entry in filter(None, done.stdout.decode().split("\0")):
        name, newline, value = entry.partition("\n")
        theirs[name].append(SPACE.sub(" ", value) if newline else "true")
    try:
        ours = {
            name: [SPACE.sub(" ", value) for value in values]
            for name, values in git_config.parse(data).items()
        }
    except git_config.GitConfigError:
        assert done.returncode
    else:
        assert not done.returncode
        assert theirs == ours


def test_the_index_is_not_written(make):
    """No question to git writes a person's index, even where git itself would."""
    path = make.repository()
    index = path / ".git/index"
    os.utime(index, (1, 1))
    os.utime(path / "a.txt", (2, 2))
    before = index.stat().st_ctime_ns, index.stat().st_ino
    commit = make.git(path, "rev-parse", "HEAD~1").decode().strip()
    git.status(str(path), 10, "--branch")
    repository.since(str(path), commit)
    git.is_tracked(str(path), "a.txt")

    assert before == (index.stat().st_ctime_ns, index.stat().st_ino)


def test_nothing_is_left_behind(make, monkeypatch, tmp_path):
    """git's work directory is removed after the answer, or later if the process was killed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    base = tmp_path / "state/handoffd/git"
    git.uncommitted_files(str(make.repository()))
    assert [] == list(base.iterdir())
    killed = subprocess.Popen(["true"])
    killed.wait()
    ours = base / f"{os.getpid()}-0-0"
    for place in (base / f"{killed.pid}-0-0", base / "strange", ours):
        place.mkdir()
        (place / "refs").symlink_to(make.home)
    git_process.remove_leftovers()

    assert [ours] == list(base.iterdir())
    assert (make.home / "shop").exists()


def test_files_with_a_filter(make):
    """No filter is run: a filtered file is changed if its time or size differs from the index."""
    seen = make.home / "seen"
    filtering = make.home / "filter"
    filtering.write_text(f"#!/bin/sh\necho >> {seen}\ntr a-z A-Z\n")
    filtering.chmod(0o755)
    (make.home / ".gitconfig").write_text(
        f'[filter "lfs"]\n\tclean = {filtering}\n\trequired = true\n'
    )
    path = make.repository()
    (path / ".gitattributes").write_text("*.bin filter=lfs\n")
    for name in ("same.bin", "changed.bin", "docs/shorter.bin", "gone.bin"):
        (path / name).write_text("large\n")
    make.commit(path, "Large")
    later = (path / ".git/index").stat().st_mtime_ns
    for name in ("same.bin", "changed.bin", "docs/shorter.bin"):
        os.utime(path / name, ns=(later, later))  # so that git must compare their content
    make.git(path, "add", "-A")
    os.utime(path / ".git/index", ns=(later, later))
    assert b"" == make.git(path, "status", "--porcelain")
    (path / "changed.bin").write_text("other\n")
    (path / "docs/shorter.bin").write_text("x\n")
    os.utime(path / "docs/shorter.bin", ns=(later, later))
    (path / "gone.bin").unlink()
    (path / "a.txt").write_text("b.txt\n")
    seen.unlink()

    expected = ["a.txt", "changed.bin", "docs/shorter.bin", "gone.bin"]
    assert expected == git.uncommitted_files(str(path))
    assert ["shorter.bin"] == git.uncommitted_files(str(path / "docs"))
    assert not seen.exists()


def symlink(name):
    def damage(make, path):
        place = path / ".git" / name
        place.parent.mkdir(exist_ok=True, parents=True)
        moved = make.home / "moved"
        if place.exists():
            place.rename(moved)
        else:
            moved.write_text("")
        place.symlink_to(moved)

    return damage


def setting(text):
    def damage(make, path):
        with (path / ".git/config").open("a") as stream:
            stream.write(text.format(victim=make.home / "victim"))

    return damage


def git_file(text):
    def damage(make, path):
        shutil.rmtree(path / ".git")
        (path / ".git").write_text(text.format(victim=make.home / "victim"))

    return damage


def whole_link(make, path):
    (path / ".git").rename(make.home / "moved")
    (path / ".git").symlink_to(make.home / "moved")


def pipe(name):
    def damage(_make, path):
        (path / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(path / ".git" / name)

    return damage


def work_tree_of_another(make, path):
    """Make a `.git` that names a work tree of the victim, which names its own directory."""
    make.git(make.home / "victim", "worktree", "add", "-q", str(make.home / "theirs"))
    git_file("gitdir: {victim}/.git/worktrees/theirs\n")(make, path)


def other_common_directory(make, path):
    (path / ".git/commondir").write_text(f"{make.home}/victim/.git\n")


def shared(text):
    def damage(make, path):
        place = path / ".git/objects/info/alternates"
        place.write_text(text.format(victim=make.home / "victim"))

    return damage


def branch_of_the_victim(make, path):
    (path / ".git/refs/heads/main").unlink()
    (path / ".git/refs/heads/main").symlink_to(make.home / "victim/.git/refs/heads/main")


def loose_object(*, below):
    """Link an object of the victim that the repository names, or the object's directory."""

    def damage(make, path):
        commit = make.git(make.home / "victim", "rev-parse", "HEAD").decode().strip()
        (path / ".git/refs/heads/main").write_text(f"{commit}\n")
        name = f"objects/{commit[:2]}/{commit[2:]}" if below else f"objects/{commit[:2]}"
        place = path / ".git" / name
        shutil.rmtree(path / f".git/objects/{commit[:2]}", ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(make.home / "victim/.git" / name)

    return damage


def separate(make, path):
    (path / ".git").rename(make.home / "moved")
    (path / ".git").write_text(f"gitdir: {make.home}/moved\n")


REFUSED = {
    **{f"{name} is a symlink": symlink(name) for name in (
        "HEAD", "config", "objects", "refs", "index", "packed-refs", "shallow", "info",
        "refs/heads", "refs/heads/main", "refs/tags", "refs/remotes", "refs/remotes/other",
        "objects/info", "objects/pack", "objects/pack/pack-x.idx", "objects/info/alternates",
    )},
    "a branch leads to the victim's": branch_of_the_victim,
    "a loose object is a symlink": loose_object(below=True),
    "loose objects are in a linked directory": loose_object(below=False),
    "objects of another repository": shared("{victim}/.git/objects\n"),
    "objects of another repository by a relative path": shared("../../../victim/.git/objects\n"),
    "objects of a clone": lambda make, path: (
        shutil.rmtree(path),
        make.git(make.home, "clone", "-q", "--shared", str(make.home / "victim"), str(path)),
    ),
    **{f"{name} is a pipe": pipe(name) for name in ("HEAD", "config", "index", "packed-refs")},
    ".git is a symlink": whole_link,
    "work tree elsewhere": setting("[core]\n\tworktree = /etc\n"),
    "work tree of the victim": setting("[core]\n\tworktree = {victim}\n"),
    "work tree above": setting("[core]\n\tworktree = ../..\n"),
    "work tree by the work tree's own": lambda make, path: (
        setting("[extensions]\n\tworktreeConfig = true\n")(make, path),
        (path / ".git/config.worktree").write_text("[core]\n\tworktree = /etc\n"),
    ),
    "bare": setting("[core]\n\tbare = yes\n"),
    "reftable": setting("[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\trefStorage = reftable\n"),
    "unknown extension": setting("[extensions]\n\tsomething = true\n"),
    "unknown object format": setting("[extensions]\n\tobjectFormat = sha3\n"),
    "extension with a name": setting('[extensions "x"]\n\tpartialClone = true\n'),
    "format": setting("[core]\n\trepositoryFormatVersion = 2\n"),
    "not understood": setting("[core\n"),
    "too long": setting("# x\n" * (1 << 18)),
    "leads to the victim": git_file("gitdir: {victim}/.git\n"),
    "leads to its work tree": work_tree_of_another,
    "leads nowhere": git_file("gitdir: ../gone\n"),
    "names nothing": git_file("nothing\n"),
    "another common directory": other_common_directory,
    "separate": separate,
    "HEAD leads out": lambda _make, path: (path / ".git/HEAD").write_text("ref: refs/../../x\n"),
    "no HEAD": lambda _make, path: (path / ".git/HEAD").unlink(),
    "no objects": lambda _make, path: shutil.rmtree(path / ".git/objects"),
}  # fmt: skip


@pytest.mark.parametrize("how", REFUSED)
def test_refused(make, how):
    """If the repository cannot be identified with certainty, git is not asked, with a reason."""
    make.change(make.repository("victim"), "secret.txt")
    path = make.repository()
    REFUSED[how](make, path)
    began = time.monotonic()
    with pytest.raises(git.GitError, match=r"^git is not asked: ") as problem:
        repository.head(str(path))

    assert str(path) in str(problem.value)
    assert "victim" not in str(problem.value)
    assert time.monotonic() - began < allowed(5)
    assert "victim" not in str(project_root.branch(str(path)))


def test_too_many_files_to_look_at(make, monkeypatch):
    """Too many files are refused with a remedy; the same repository is accepted when packed."""
    path = make.repository()
    make.git(path, "gc", "-q")
    packed = sum(len(names) for _, *both in os.walk(path / ".git/objects") for names in both)
    packed += sum(len(names) for _, *both in os.walk(path / ".git/refs") for names in both)
    monkeypatch.setattr(git_process, "DATA_FILES_MAX", packed)
    make.change(path, "a.txt")
    assert ["a.txt"] == git.uncommitted_files(str(path))
    make.commit(path, "More")
    with pytest.raises(git.GitError, match=r"git -C .* gc"):
        git.uncommitted_files(str(path))


def test_separate_directory_that_leads_back(make):
    """A separate git directory is accepted if its core.worktree names the work tree."""
    path = make.repository()
    separate(make, path)
    make.git(path, "config", "core.worktree", str(path))
    make.change(path, "a.txt")

    assert ("main", ("a.txt",)) == (repository.head(str(path))[1], repository.head(str(path))[-1])


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="gives a file to another user, which only root may do: run the tests as root",
)
def test_another_users_repository(make):
    """Another user's repository is refused, as by git, unless the user declares it safe."""
    path = make.change(make.repository(), "a.txt")
    os.chown(path / ".git", 12345, 12345)
    with pytest.raises(git.GitError, match="belongs to another user"):
        git.uncommitted_files(str(path))
    (make.home / ".gitconfig").write_text(f"[safe]\n\tdirectory = {path}\n")
    git_process._user_settings.clear()

    assert ["a.txt"] == git.uncommitted_files(str(path))


@pytest.mark.parametrize(
    ("named", "safe"),
    [
        (["/code/shop"], True), (["*"], True), (["/code/*"], True), (["/code"], False), ([], False),
        (["/code/shop", ""], False), (["", "/code/shop"], True), (["/code/shop/*"], False),
    ],
)  # fmt: skip
def test_safe_directory(named, safe):
    """`safe.directory` has git's forms: a path, all below a path, all, and a reset."""
    assert safe == git_process._is_safe("/code/shop", named)


def test_work_trees_that_lead_back(make):
    """Only work trees that lead back to the repository are returned."""
    path = make.repository()
    for name in ("auth", "moved", "taken"):
        make.git(path, "worktree", "add", "-q", "-b", name, str(make.home / name))
    shutil.rmtree(make.home / "moved")
    (path / ".git/worktrees/taken/gitdir").write_text("/etc/.git\n")

    for asked in (path, make.home / "auth"):
        found = repository.worktrees(str(asked))
        assert [(str(path), "main"), (str(make.home / "auth"), "auth")] == [
            each[:2] for each in found
        ]


def test_work_trees_of_a_bare_repository(make):
    """A bare repository is no work tree, and a submodule is one."""
    linked = KINDS["linked_to_a_bare_repository"](make)
    assert [str(linked)] == [each.path for each in repository.worktrees(str(linked))]
    inside = KINDS["inside_a_submodule"](make)
    assert [str(inside)] == [each.path for each in repository.worktrees(str(inside))]


def test_what_stands_in_our_configuration(make, monkeypatch):
    """Only listed settings of a repository are passed to git, and only with known values."""
    path = make.repository()
    with (path / ".git/config").open("a") as stream:
        stream.write(
            "[core]\n\tautocrlf = yes\n\teol = $(x)\n\tabbrev = ghp_x\n\tsymlinks = maybe\n"
            "\texcludesFile = /etc/passwd\n\tsshCommand = x\n\tfileMode = 0\n"
            '[branch "main"]\n\tremote = "ext::x"\n\tmerge = refs/heads/main\n'
        )
    told = []
    monkeypatch.setattr(git_config, "formatted", lambda pairs: told.extend(pairs) or "")
    git.uncommitted_files(str(path))

    own = dict(git_process._OURS)
    assert {"core.filemode": "false", "core.autocrlf": "true"} == dict(told[len(own) :])


def test_an_answer_that_is_cut(make, monkeypatch):
    """A truncated list of changes is used without its cut name; other truncated answers fail."""
    path = make.change(make.repository(), *(f"new-{number:03}.txt" for number in range(300)))
    names = {f"new-{number:03}.txt" for number in range(300)}
    git.uncommitted_files(str(path))  # so that the user's settings are already known
    monkeypatch.setattr(git_process, "OUTPUT_MAX_BYTES", 1000)
    found = git.uncommitted_files(str(path))
    assert 10 < len(found) < 100
    assert set(found) <= names
    commit_before = make.git(path, "rev-parse", "HEAD").decode().strip()
    make.commit(path, "Many")
    commit = make.git(path, "rev-parse", "HEAD").decode().strip()
    assert git.added_lines(str(path), commit)
    for ask, words in ((git.is_tracked, "."), (repository.since, commit_before)):
        with pytest.raises(git.GitError, match="more than 1000 bytes"):
            ask(str(path), words)


def test_settings_of_the_user_that_are_cut(make, monkeypatch):
    """A truncated user configuration is not used, because a setting may be missing."""
    path = make.repository()
    (make.home / ".gitconfig").write_text("[x]\n" + "\ty = z\n" * 1000)
    git_process._user_settings.clear()
    monkeypatch.setattr(git_process, "OUTPUT_MAX_BYTES", 1000)
    with pytest.raises(git.GitError, match="git config said more"):
        git.uncommitted_files(str(path))


def test_configurations_are_not_kept(make):
    """Reading new versions of a long configuration does not leak memory."""
    path = make.repository()
    config = path / ".git/config"
    begin = config.read_text()
    tracemalloc.start()
    try:
        for number in range(5):
            config.write_text(
                begin + "".join(f'[x "{number}-{n}"]\n\ty = {n}\n' for n in range(10_000))
            )
            git_discovery.find(str(path))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1 << 20


@pytest.mark.parametrize("place", ["link", "commondir", "worktree"])
def test_a_path_with_a_nul_byte_is_refused(tmp_path, place):
    """A repository whose files name a path with a NUL byte is refused, and raises nothing else."""
    root = tmp_path / "project"
    root.mkdir()
    if place == "link":
        (root / ".git").write_bytes(b"gitdir: /x\0y\n")
    else:
        (root / ".git").mkdir()
        (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
        name, text = (
            ("commondir", b"../a\0b\n")
            if place == "commondir"
            else ("config", b"[core]\n\tworktree = a\0b\n")
        )
        (root / ".git" / name).write_bytes(text)

    assert project_root.branch(str(root)) is None
    assert "" == project_root.reflog_stamp(str(root))
