"""Links between documents lead to existing headings, in the repository and on the site."""

import re
import unicodedata
from pathlib import Path

import pytest

from conftest import REPOSITORY

DOCUMENTS = sorted(
    [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").glob("*.md"),
        *(REPOSITORY / "bench").glob("*.md"),
        REPOSITORY / "client/plugin/README.md",
    ]
)
CODE = re.compile(r"(?ms)^ *```.*?^ *```$|`[^`\n]+`")
LINK = re.compile(r"!?\[[^\]]*\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(document: Path) -> str:
    """Return a document without its code, because brackets in code are no links."""
    return CODE.sub("", document.read_text())


def by_github(heading: str) -> str:
    """Return the anchor that GitHub makes from a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def by_mkdocs(heading: str) -> str:
    """Return the anchor that mkdocs makes from a heading."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(document: Path, rule) -> set[str]:
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text())
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {rule(re.sub(r"`|\*\*|\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(document):
    """Every relative link of a document names an existing file and a heading in it."""
    for target, anchor in LINK.findall(prose(document)):
        file = document.parent / target if target else document
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file, by_github), (target, anchor)
            assert anchor in anchors(file, by_mkdocs), (target, anchor)


def test_every_page_is_in_the_navigation():
    """mkdocs.yml lists every page of docs/, and the README links to each of them."""
    navigation = (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    pages = {path.name for path in (REPOSITORY / "docs").glob("*.md")}
    linked = {target for target, _ in LINK.findall((REPOSITORY / "README.md").read_text())}

    assert set() == pages - listed
    assert set() == {f"docs/{page}" for page in pages} - linked
