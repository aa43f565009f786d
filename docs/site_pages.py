"""A hook of mkdocs that adds the documents outside of docs/ to the site, and adapts their links.

The documents link to each other by their paths in the repository, so that the links work there,
too. On the site docs/ is the root: `docs/mcp.md` becomes `mcp.md`, `../SECURITY.md` becomes
`SECURITY.md`, and README.md is the first page.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parent.parent
# The path in the repository, and the one on the site.
ADDED = {
    "README.md": "index.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "LICENSE": "LICENSE.txt",
    "config.example.toml": "config.example.toml",
    "bench/README.md": "bench/README.md",
    "bench/results.md": "bench/results.md",
    "bench/promises.md": "bench/promises.md",
    "bench/freshness.svg": "bench/freshness.svg",
}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside of docs/."""
    for source, place in ADDED.items():
        files.append(File.generated(config, place, abs_src_path=str(REPOSITORY / source)))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the relative links of a page from the repository to the site."""
    del config, files
    place = page.file.src_uri
    sources = {there: here for here, there in ADDED.items()}
    source = sources.get(place, f"docs/{place}")

    def adapted(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        there = ADDED.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(there, posixpath.dirname(place) or ".")

    return _LINK.sub(adapted, markdown)
