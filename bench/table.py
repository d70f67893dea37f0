"""Rows of figures, and the Markdown table made of them."""

import dataclasses
import statistics

# What ratios are taken against, the first that was measured.
BASELINES = ["valkey9", "valkey", "redis8", "redis"]


@dataclasses.dataclass
class Row:
    """One line of the table: samples per server, in `unit`. A sample may be a tuple of figures that belong together."""

    title: str
    unit: str
    digits: int = 2
    samples: dict = dataclasses.field(default_factory=dict)

    def add(self, server_name, value):
        self.samples.setdefault(server_name, []).append(value)

    def value(self, server_name):
        """The median over the rounds; a text where the server could not be measured; None where it was not."""
        samples = self.samples.get(server_name)
        if not samples:
            return None
        numbers = [sample for sample in samples if not isinstance(sample, str)]
        if numbers and isinstance(numbers[0], tuple):
            return tuple(statistics.median(figures) for figures in zip(*numbers, strict=True))
        return statistics.median(numbers) if numbers else samples[-1]


class Table:
    """All rows of a run."""

    def __init__(self, programs):
        self.programs = programs
        self.rows = []
        self.notes = []

    def row(self, title, unit, digits=2):
        """The row of this title, new or as it was."""
        for row in self.rows:
            if row.title == title:
                return row
        self.rows.append(Row(title, unit, digits))
        return self.rows[-1]

    def markdown(self):
        names = [program.name for program in self.programs]
        baselines = [name for name in BASELINES if name in names] + [name for name in names[1:] if name not in BASELINES]
        heads = ["figure", "unit", *(str(program) for program in self.programs)]
        if baselines:
            heads.append("halcyon / " + baselines[0])
        lines = ["| " + " | ".join(heads) + " |", "|---|---" + "|--:" * (len(heads) - 2) + "|"]
        for row in self.rows:
            cells = [row.title, row.unit, *(cell(row.value(name), row.digits) for name in names)]
            if baselines:
                cells.append(ratio(row, baselines))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines + [""] + self.notes)


def described(row, value):
    """A figure as it was measured, before the table is whole."""
    return f"{row.title}: {cell(value, row.digits)} {row.unit}"


def cell(value, digits):
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " / ".join(cell(figure, digits) for figure in value)
    return value if isinstance(value, str) else f"{value:,.{digits}f}"


def ratio(row, baselines):
    """Halcyon against the first baseline that has this figure; named where that is not the column's own.

    Of a tuple the last figure counts.
    """
    ours = last(row.value("halcyon"))
    if ours is None or isinstance(ours, str):
        return ""
    for name in baselines:
        theirs = last(row.value(name))
        if theirs is not None and not isinstance(theirs, str) and theirs > 0 and ours >= 0:
            return f"{ours / theirs:.2f}" + ("" if name == baselines[0] else f" ({name})")
    return ""


def last(value):
    return value[-1] if isinstance(value, tuple) else value
