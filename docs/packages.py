"""Draw the packages of the daemon and their imports: `make pictures` writes docs/packages.svg.

The order of the lines is that of tests/contract/test_imports.py, which fails on an import that
goes up. An arrow is drawn to the highest packages that a package imports; arrows that follow from
others are left out, so that the picture can be read.
"""

import ast
import html
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DAEMON = ROOT / "daemon/handoffd"
WIDTH, LEFT, TOP, LINE, BOX = 760, 20, 56, 58, 34
INK, FAINT, FILL, FRAME = "#1f2933", "#8a97a6", "#eef3f8", "#b7c4d2"


def lines() -> list[list[str]]:
    """Return the order of imports as the test states it, packages only."""
    tree = ast.parse((ROOT / "tests/contract/test_imports.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LINES":
            found = ast.literal_eval(node.value)
            rows = [[name for name in row if (DAEMON / name).is_dir()] for row in found]
            return [["app"], *(row for row in rows if row)]
    raise SystemExit("tests/contract/test_imports.py has no LINES.")


def imports() -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    found: dict[str, set[str]] = {}
    for path in DAEMON.rglob("*.py"):
        own = path.relative_to(DAEMON).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("handoffd"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found.setdefault(own, set()).update(name.split(".")[1] for name in names)
    return {name: others - {name} for name, others in found.items()}


def without_shortcuts(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow to a package that is reached through another one."""

    def reached(name: str) -> set[str]:
        below = graph.get(name, set())
        return below.union(*(reached(other) for other in below)) if below else set()

    kept = {}
    for name, others in graph.items():
        indirect: set[str] = set().union(*(reached(other) for other in others))
        kept[name] = others - indirect
    return kept


def size(name: str) -> str:
    paths = [DAEMON / f"{name}.py"] if name == "app" else list((DAEMON / name).rglob("*.py"))
    count = sum(len(path.read_text().splitlines()) for path in paths)
    return f"{count:,} lines"


def draw() -> str:
    rows = lines()
    drawn = {name for row in rows for name in row}
    graph = {name: found & drawn for name, found in imports().items() if name in drawn}
    places: dict[str, tuple[float, float]] = {}
    width = 170
    for number, row in enumerate(rows):
        step = (WIDTH - 2 * LEFT) / len(row)
        for column, name in enumerate(row):
            places[name] = (LEFT + step * (column + 0.5), TOP + number * LINE)
    height = TOP + len(rows) * LINE
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'font-family="sans-serif" role="img" aria-label="The packages of the daemon">'
        ),
        (
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{FAINT}"/></marker>'
            "</defs>"
        ),
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        (
            f'<text x="{LEFT}" y="26" font-size="14" fill="{INK}">Imports go down, never up. '
            "Arrows that follow from others are left out.</text>"
        ),
    ]
    for name, others in without_shortcuts(graph).items():
        for other in others:
            (x1, y1), (x2, y2) = places[name], places[other]
            bend = 0 if abs(y2 - y1) <= LINE else (110 if x1 <= x2 else -110)
            middle = (x1 + x2) / 2 + bend
            parts.append(
                f'<path d="M{x1:.0f} {y1 + BOX:.0f} Q{middle:.0f} {(y1 + BOX + y2) / 2:.0f} '
                f'{x2:.0f} {y2 - 2:.0f}" fill="none" stroke="{FAINT}" marker-end="url(#a)"/>'
            )
    for name, (x, y) in places.items():
        parts.append(
            f'<rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width}" height="{BOX}" rx="6" '
            f'fill="{FILL}" stroke="{FRAME}"/>'
            f'<text x="{x:.0f}" y="{y + 15:.0f}" font-size="14" text-anchor="middle" '
            f'fill="{INK}">{html.escape(name)}</text>'
            f'<text x="{x:.0f}" y="{y + 28:.0f}" font-size="10" text-anchor="middle" '
            f'fill="{FAINT}">{size(name)}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs/packages.svg"
    target.write_text(draw())
    print(f"{target} is drawn.")
