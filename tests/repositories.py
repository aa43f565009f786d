"""Repositories of every harmless kind, made by the real git."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

KINDS: dict[str, Callable[["Maker"], Path]] = {}


def kind(make: Callable[["Maker"], Path]) -> Callable[["Maker"], Path]:
    KINDS[make.__name__] = make
    return make


class Maker:
    """Makes repositories in a directory that is HOME, too."""

    def __init__(self, home: Path):
        self.home = home
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.invalid",
            "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.invalid",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_ALLOW_PROTOCOL": "file", "GIT_OPTIONAL_LOCKS": "0",
        }  # fmt: skip

    def git(self, path: Path, *words: str | bytes, check: bool = True) -> bytes:
        done = subprocess.run(
            ["git", "-C", path, *words], env=self.environment, check=check, capture_output=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout

    def repository(self, name: str = "shop", *options: str) -> Path:
        """Make a repository with two commits and three files, one of them below a directory."""
        path = self.home / name
        self.git(self.home, "init", "-q", "-b", "main", *options, str(path))
        (path / "docs").mkdir()
        for file in ("a.txt", "b.txt", "docs/c.txt"):
            (path / file).write_text(f"{file}\n")
        self.commit(path, "Begin")
        self.change(path, "b.txt")
        return self.commit(path, "Go on")

    def commit(self, path: Path, text: str) -> Path:
        self.git(path, "add", "-A")
        self.git(path, "commit", "-qm", text)
        return path

    def change(self, path: Path, *names: str) -> Path:
        for name in names:
            with (path / name).open("a") as stream:
                stream.write("more\n")
        return path

    def clone(self, path: Path, *options: str) -> Path:
        clone = self.home / "clone"
        self.git(self.home, "clone", "-q", *options, f"file://{path}", str(clone))
        return clone


@kind
def clean(make: Maker) -> Path:
    return make.repository()


@kind
def changed(make: Maker) -> Path:
    path = make.change(make.repository(), "a.txt", "new.txt", "docs/new.txt")
    (path / "b.txt").unlink()
    (path / "more").mkdir()
    return make.change(path, "more/x.txt", "more/y.txt")


@kind
def staged(make: Maker) -> Path:
    path = make.change(make.repository(), "a.txt", "new.txt")
    make.git(path, "add", "-A")
    make.git(path, "mv", "b.txt", "moved.txt")
    return make.change(path, "a.txt")


@kind
def meant_to_be_added(make: Maker) -> Path:
    path = make.change(make.repository(), "new.txt")
    make.git(path, "add", "-N", "new.txt")
    return path


@kind
def touched_only(make: Maker) -> Path:
    path = make.repository()
    os.utime(path / "a.txt", (1, 1))
    return path


@kind
def ignored(make: Maker) -> Path:
    path = make.repository()
    (path / ".gitignore").write_text("*.log\n")
    (path / ".git/info/exclude").write_text("*.tmp\n")
    return make.change(path, "a.log", "a.tmp", "a.new")


@kind
def ignored_by_the_user(make: Maker) -> Path:
    (make.home / ".gitconfig").write_text('[core]\n\texcludesFile = "~/my ignored"\n')
    (make.home / "my ignored").write_text("*.mine\n")
    return make.change(make.repository(), "a.mine", "a.new")


@kind
def ignored_by_an_included_file(make: Maker) -> Path:
    (make.home / ".gitconfig").write_text("[include]\n\tpath = more.config\n")
    (make.home / "more.config").write_text("[core]\n\texcludesFile = ~/ignored\n")
    (make.home / "ignored").write_text("*.mine\n")
    return make.change(make.repository(), "a.mine", "a.new")


@kind
def ignored_by_default_of_the_user(make: Maker) -> Path:
    (make.home / ".config/git").mkdir(parents=True)
    (make.home / ".config/git/ignore").write_text("*.mine\n")
    return make.change(make.repository(), "a.mine", "a.new")


@kind
def below_the_top(make: Maker) -> Path:
    path = make.change(make.repository(), "a.txt", "docs/c.txt", "docs/new.txt")
    return path / "docs"


@kind
def before_the_first_commit(make: Maker) -> Path:
    path = make.home / "empty"
    make.git(make.home, "init", "-q", "-b", "main", str(path))
    return make.change(path, "a.txt")


@kind
def detached(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "checkout", "-q", "HEAD~1")
    return make.change(path, "a.txt")


@kind
def packed(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "branch", "other")
    make.git(path, "pack-refs", "--all", "--prune")
    make.git(path, "gc", "-q")
    return make.change(path, "a.txt")


@kind
def strange_branch(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "checkout", "-q", "-b", 'fix/#7;"quoted"=ü', "--track", "main")
    return make.commit(make.change(path, "a.txt"), "Ahead")


@kind
def ahead_and_behind(make: Maker) -> Path:
    origin = make.repository()
    clone = make.clone(origin)
    make.commit(make.change(origin, "a.txt"), "Theirs")
    make.commit(make.change(clone, "b.txt"), "Ours")
    make.git(clone, "fetch", "-q")
    return clone


@kind
def upstream_is_gone(make: Maker) -> Path:
    clone = make.clone(make.repository())
    make.git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    return clone


@kind
def remote_with_another_name(make: Maker) -> Path:
    clone = make.clone(make.repository(), "-o", "team/one")
    return make.commit(make.change(clone, "b.txt"), "Ours")


@kind
def remote_of_one_branch(make: Maker) -> Path:
    clone = make.clone(make.repository(), "--single-branch")
    return make.commit(make.change(clone, "b.txt"), "Ours")


@kind
def shallow(make: Maker) -> Path:
    clone = make.clone(make.repository(), "--depth=1")
    return make.commit(make.change(clone, "b.txt"), "Ours")


@kind
def partial(make: Maker) -> Path:
    origin = make.repository()
    make.git(origin, "config", "uploadpack.allowFilter", "true")
    clone = make.clone(origin, "--filter=blob:none")
    os.utime(clone / "b.txt", (1, 1))
    return make.change(clone, "a.txt", "new.txt")


@kind
def partial_without_trees(make: Maker) -> Path:
    origin = make.repository()
    make.git(origin, "config", "uploadpack.allowFilter", "true")
    return make.change(make.clone(origin, "--filter=tree:0"), "a.txt", "new.txt")


@kind
def sha256(make: Maker) -> Path:
    return make.change(make.repository("shop", "--object-format=sha256"), "a.txt", "new.txt")


@kind
def split_index(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "update-index", "--split-index")
    make.git(path, "add", "-A", "--", make.change(path, "docs/c.txt").name and "docs")
    return make.change(path, "a.txt", "new.txt")


@kind
def index_of_version_4(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "update-index", "--index-version", "4")
    return make.change(path, "a.txt")


@kind
def untracked_cache(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "config", "core.untrackedCache", "true")
    make.git(path, "update-index", "--untracked-cache")
    return make.change(path, "a.txt", "new.txt")


@kind
def assumed_unchanged(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "update-index", "--assume-unchanged", "a.txt")
    make.git(path, "update-index", "--skip-worktree", "b.txt")
    (path / "b.txt").unlink()
    return make.change(path, "a.txt")


@kind
def linked_work_tree(make: Maker) -> Path:
    path = make.repository()
    (path / ".git/info/exclude").write_text("*.tmp\n")
    make.git(path, "worktree", "add", "-q", "-b", "auth", str(make.home / "auth"))
    return make.change(make.home / "auth", "a.txt", "new.txt", "new.tmp")


@kind
def linked_work_tree_with_settings(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "config", "extensions.worktreeConfig", "true")
    make.git(path, "worktree", "add", "-q", "-b", "auth", str(make.home / "auth"))
    make.git(make.home / "auth", "config", "--worktree", "core.fileMode", "false")
    (make.home / "auth/a.txt").chmod(0o755)
    return make.home / "auth"


@kind
def linked_to_a_bare_repository(make: Maker) -> Path:
    bare = make.home / "shop.git"
    make.git(make.home, "clone", "-q", "--bare", str(make.repository()), str(bare))
    make.git(bare, "worktree", "add", "-q", "-b", "auth", str(make.home / "auth"))
    return make.change(make.home / "auth", "a.txt", "new.txt")


def _with_submodule(make: Maker) -> Path:
    inner, outer = make.repository("inner"), make.repository("outer")
    make.git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    return make.commit(outer, "Take in")


@kind
def inside_a_submodule(make: Maker) -> Path:
    return make.change(_with_submodule(make) / "sub", "a.txt", "new.txt")


@kind
def around_a_submodule(make: Maker) -> Path:
    outer = _with_submodule(make)
    make.commit(make.change(outer / "sub", "a.txt"), "Inside")
    make.change(outer / "sub", "b.txt")
    return make.change(outer, "a.txt")


@kind
def around_another_repository(make: Maker) -> Path:
    path = make.repository()
    make.repository("shop/nested")
    return path


@kind
def sparse(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "sparse-checkout", "set", "--no-cone", "/a.txt", "/docs/")
    return make.change(path, "a.txt", "new.txt")


@kind
def sparse_index(make: Maker) -> Path:
    path = make.repository()
    (path / "src/deep").mkdir(parents=True)
    make.commit(make.change(path, "src/x.txt", "src/deep/y.txt"), "Sources")
    make.git(path, "sparse-checkout", "set", "--cone", "--sparse-index", "docs")
    return make.change(path, "docs/c.txt", "new.txt")


@kind
def sparse_but_there(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "sparse-checkout", "set", "--no-cone", "/docs/")
    (path / "a.txt").write_text("back again\n")
    return path


def _diverged(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "checkout", "-q", "-b", "other", "HEAD~1")
    make.commit(make.change(path, "a.txt", "b.txt"), "Other")
    make.git(path, "checkout", "-q", "main")
    (path / "a.txt").write_text("ours\n")
    return make.commit(path, "Ours")


@kind
def merging(make: Maker) -> Path:
    path = _diverged(make)
    make.git(path, "merge", "-q", "other", check=False)
    return path


@kind
def rebasing(make: Maker) -> Path:
    path = _diverged(make)
    make.git(path, "rebase", "-q", "other", check=False)
    return path


@kind
def line_ends_by_setting(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "config", "core.autocrlf", "true")
    (path / "a.txt").write_bytes(b"a.txt\r\n")
    (path / "b.txt").write_bytes(b"b.txt\r\nmore\r\nand more\r\n")
    return path


@kind
def line_ends_by_the_user(make: Maker) -> Path:
    (make.home / ".gitconfig").write_text("[core]\n\tautocrlf = input\n")
    path = make.repository()
    (path / "a.txt").write_bytes(b"a.txt\r\n")
    return path


@kind
def line_ends_by_attribute(make: Maker) -> Path:
    path = make.repository()
    (path / ".gitattributes").write_text("*.txt text eol=crlf\n*.bin -text\n")
    (path / "x.bin").write_bytes(b"a\r\n")
    make.commit(path, "Attributes")
    (path / ".git/info/attributes").write_text("b.txt -text\n")
    for name in ("a.txt", "b.txt"):
        text = (path / name).read_bytes()
        (path / name).write_bytes(text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    return path


@kind
def encoding_by_attribute(make: Maker) -> Path:
    path = make.repository()
    (path / ".gitattributes").write_text("a.txt working-tree-encoding=UTF-16LE\n")
    (path / "a.txt").write_bytes("a.txt\n".encode("utf-16-le"))
    make.commit(path, "Attributes")
    os.utime(path / "a.txt", (1, 1))
    return path


@kind
def filter_without_a_program(make: Maker) -> Path:
    path = make.repository()
    (path / ".gitattributes").write_text("* filter=lfs diff=lfs merge=lfs\n")
    return make.change(make.commit(path, "Attributes"), "a.txt")


@kind
def modes_do_not_count(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "config", "core.fileMode", "no")
    (path / "a.txt").chmod(0o755)
    return path


@kind
def modes_count(make: Maker) -> Path:
    path = make.repository()
    (path / "a.txt").chmod(0o755)
    return path


@kind
def symlinks(make: Maker) -> Path:
    path = make.repository()
    (path / "link").symlink_to("a.txt")
    make.commit(path, "Link")
    (path / "link").unlink()
    (path / "link").symlink_to("b.txt")
    (path / "b.txt").unlink()
    (path / "b.txt").symlink_to("/etc")
    return path


@kind
def no_symlinks(make: Maker) -> Path:
    path = make.repository()
    (path / "link").symlink_to("a.txt")
    make.commit(path, "Link")
    make.git(path, "config", "core.symlinks", "false")
    (path / "link").unlink()
    (path / "link").write_text("a.txt")
    return path


@kind
def names_of_any_bytes(make: Maker) -> Path:
    path = make.repository()
    for name in (b"\xff\xfe.txt", b"a\nb.txt", 'ü "q".txt'.encode(), b" lead", b"tab\t.txt"):
        with open(os.path.join(os.fsencode(path), name), "wb") as stream:
            stream.write(b"x\n")
    make.git(path, "add", b"\xff\xfe.txt")
    return path


@kind
def below_a_directory_of_any_bytes(make: Maker) -> Path:
    path = make.repository()
    below = Path(os.fsdecode(os.fsencode(path) + b"/\xffdir"))
    below.mkdir()
    make.commit(make.change(path, os.fsdecode(b"\xffdir/x.txt")), "Below")
    return make.change(below, "x.txt", "y.txt")


@kind
def case_does_not_count(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "config", "core.ignoreCase", "true")
    (path / "a.txt").rename(path / "A.TXT")
    return path


@kind
def replaced_commit(make: Maker) -> Path:
    path = make.repository()
    make.git(path, "replace", "--graft", "HEAD")
    return path


@kind
def settings_in_every_spelling(make: Maker) -> Path:
    path = make.repository()
    with (path / ".git/config").open("a") as stream:
        stream.write('# note\n[CORE] FileMode=of\\\nf ; note\n\t[core]autocrlf = "in"put # x\n')
    (path / "a.txt").chmod(0o755)
    (path / "b.txt").write_bytes(b"b.txt\r\nmore\r\n")
    return path
