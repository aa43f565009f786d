"""A picture of measured times over sizes, as SVG: both axes by powers of ten."""

import math
from dataclasses import dataclass
from html import escape

Points = list[tuple[float, float]]

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 226, 56, 56
LABEL_PIXELS = 17  # between the names of two lines, at least
COLOURS = ("#0b62c4", "#4a9be8", "#c4500b", "#6b6b6b")
_SIZE = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
_HEAD = 'fill="#1b1b1b" font-weight="600" font-size="15"'
_NAME = 'font-weight="600" paint-order="stroke" stroke="#fff" stroke-width="5"'
_MIDDLE, _END = 'fill="#444" text-anchor="middle"', 'fill="#444" text-anchor="end"'
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_STYLE = "font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:13px"


@dataclass(frozen=True)
class Axis:
    """From one value to another, and from one pixel to another, with lines at its ticks."""

    ticks: list[float]
    start: float
    end: float

    def place(self, value: float) -> float:
        least, most = math.log10(self.ticks[0]), math.log10(self.ticks[-1])
        return self.start + (math.log10(value) - least) / (most - least) * (self.end - self.start)


def draw(title: str, below: str, lines: dict[str, Points]) -> str:
    """Return a picture with a line per name; the points are megabytes and seconds."""
    across, up = _axes(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {_SIZE} role="img" style="{_STYLE}">',
        f"<title>{escape(title)}</title>",
        # Dark pages shine through a picture without a background of its own.
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff"/>',
        _text(LEFT, 28, title, _HEAD),
        *_grid(across, up),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, below, _MIDDLE),
    ]
    for (name, points), colour in zip(lines.items(), COLOURS, strict=False):
        parts += _line([(across.place(x), up.place(y)) for x, y in points], name, colour)
    parts += _names(lines, across, up)
    return "\n".join([*parts, "</svg>", ""])


def _axes(lines: dict[str, Points]) -> tuple[Axis, Axis]:
    """Tick the sizes that were measured, and the powers of ten around the times."""
    sizes = sorted({x for points in lines.values() for x, _ in points})
    powers = [math.log10(y) for points in lines.values() for _, y in points]
    # A line at the very bottom would have its name among the sizes.
    ticks = range(math.floor(min(powers) - 0.2), math.floor(max(powers)) + 2)
    times = [10.0**power for power in ticks]
    return Axis(sizes, LEFT, WIDTH - RIGHT), Axis(times, HEIGHT - BOTTOM, TOP)


def _grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value in across.ticks:
        x = across.place(value)
        parts.append(_stroke(x, up.start, x, up.end))
        parts.append(_text(x, up.start + 20, f"{value:g} MB", _MIDDLE))
    for value in up.ticks:
        y = up.place(value)
        parts.append(_stroke(across.start, y, across.end, y))
        parts.append(_text(across.start - 9, y + 4, duration(value), _END))
    return parts


def _line(places: Points, name: str, colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    return [f"<g><title>{escape(name)}</title>", line, *dots, "</g>"]


def _names(lines: dict[str, Points], across: Axis, up: Axis) -> list[str]:
    """Name each line beside its last point, none over another."""
    ends = zip(lines.items(), COLOURS, strict=False)
    placed = sorted((up.place(points[-1][1]), name, colour) for (name, points), colour in ends)
    parts, above = [], float(TOP)
    for y, name, colour in placed:
        above = max(y + 4, above + LABEL_PIXELS)
        x = across.place(lines[name][-1][0]) + 10
        said = f"{name}, {duration(lines[name][-1][1])}"
        parts.append(_text(x, above, said, f'fill="{colour}" {_NAME}'))
    return parts


def _text(x: float, y: float, said: str, look: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(said)}</text>'


def _stroke(x: float, y: float, to_x: float, to_y: float) -> str:
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="#dcdcdc" stroke-width="1"/>'


def duration(value_seconds: float) -> str:
    for factor, unit in _UNITS:
        # Powers of ten are not exact below one.
        if value_seconds >= factor * (1 - 1e-9):
            digits = max(1 - math.floor(math.log10(value_seconds / factor) + 1e-9), 0)
            return f"{value_seconds / factor:.{digits}f} {unit}".replace(".0 ", " ")
    return f"{value_seconds:g} s"
