"""Runs side by side, as Markdown between two marks of a document, and the chart of memory as a file of its own."""

import re

from lib import charts, page, svg, table
from lib.runs import CATEGORIES, ReportError

BEGIN, END = "<!-- demo: begin -->", "<!-- demo: end -->"


def as_markdown(runs, picture):
    """`picture`: where the document finds the chart."""
    header = ["MiB per rank", *CATEGORIES, "total", "saved", "final loss", "tokens/s"]
    lines = [f"![Memory per rank by category, planned and measured]({picture})", "",
             f"{page.facts(runs[0])}:", "",
             f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for run in runs:
        held = [table.mib(run.bytes("measured_peak", c)) for c in (*CATEGORIES, "total")]
        cells = [run.label, *held, table.saving(run, runs[0]) if run is not runs[0] else "", f"{run.losses[-1]:.9g}",
                 f"{run.settled('tokens_per_s'):,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(sentence for _, sentence in table.claims(runs)), "`scripts/demo.sh --record` makes this table again."]
    return "\n".join(lines) + "\n"


def replaced(document, block):
    """`document` with `block` between the marks."""
    pattern = re.compile(f"({re.escape(BEGIN)}\n).*?({re.escape(END)})", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise ReportError(f'the document must hold "{BEGIN}" and "{END}" once')
    return pattern.sub(lambda found: found.group(1) + block + found.group(2), document)


def as_picture(runs):
    """The chart of memory as one SVG that needs no style sheet, with its legend."""
    return svg.alone(charts.memory(runs), page.STYLE, [(category, category) for category in CATEGORIES])
