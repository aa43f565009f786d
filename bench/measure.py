"""Figures, ratios and the table they are printed in."""

import statistics
from dataclasses import dataclass, field

HEADS = ("what", "handoffd", "floor or peer", "ratio", "bar", "")
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))


def quantile(values: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(-int(-len(ordered) * share // 1), 1) - 1]


def slope(points: list[tuple[float, float]]) -> float:
    """Return the growth of the second value per unit of the first, by least squares."""
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    spread_x = sum((x - mean_x) ** 2 for x, _ in points)
    together = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return together / spread_x if spread_x else 0.0


def seconds(value: float) -> str:
    for unit, factor in _UNITS:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e6:.2g} µs"


def spread(values: list[float]) -> str:
    return f"{seconds(statistics.median(values))} (p95 {seconds(quantile(values, 0.95))})"


@dataclass(frozen=True)
class Row:
    what: str
    figure: str
    floor: str = ""
    ratio: float | None = None
    bar: str = ""
    passed: bool | None = None
    note: str = ""  # in place of a ratio

    def cells(self) -> tuple[str, ...]:
        ratio = self.note if self.ratio is None else _times(self.ratio)
        verdict = {None: "", True: "pass", False: "MISS"}[self.passed]
        return self.what, self.figure, self.floor, ratio, self.bar, verdict


@dataclass
class Table:
    """Rows in the order they were measured, notes on them, and pictures (SVG)."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drawings: dict[str, str] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def times(
        self, what: str, ours: list[float], floor: list[float], most: float | None = None
    ) -> None:
        """Add the medians of two interleaved series, and their ratio against its bar."""
        ratio = statistics.median(ours) / statistics.median(floor)
        self.add(ratio_row(what, spread(ours), spread(floor), ratio, most))

    def faster(
        self, what: str, ours: list[float], theirs: list[float], least: float | None = None
    ) -> None:
        """Add the medians of two interleaved series, and how many times faster ours is."""
        ratio = statistics.median(theirs) / statistics.median(ours)
        figures = spread(ours), spread(theirs), ratio
        if least is None:
            self.add(Row(what, *figures))
        else:
            self.add(Row(what, *figures, f">= {least:g}x", ratio >= least))

    def at_most(self, what: str, value: float, most: float, unit: str, floor: str = "") -> None:
        """Add a figure that has a bar of its own."""
        bar = f"<= {most:g} {unit}"
        self.add(Row(what, f"{value:.3g} {unit}", floor, None, bar, value <= most))

    def none(self, what: str, found: int, of: str = "") -> None:
        """Add a count that must be zero, beside the total it was counted among."""
        self.add(Row(what, str(found), of, None, "0", found == 0))

    def print(self) -> None:
        lines = [HEADS, *(row.cells() for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join(cells).rstrip())
        print("\n".join([*self.notes, self.verdict()]))

    def verdict(self) -> str:
        bars = [row for row in self.rows if row.passed is not None]
        return f"{len(bars) - self.missed} of {len(bars)} bars kept."

    @property
    def missed(self) -> int:
        return sum(row.passed is False for row in self.rows)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 1000 else f"{ratio:.3g}x"


def ratio_row(what: str, figure: str, floor: str, ratio: float, most: float | None = None) -> Row:
    if most is None:
        return Row(what, figure, floor, ratio)
    return Row(what, figure, floor, ratio, f"<= {most:g}x", ratio <= most)
