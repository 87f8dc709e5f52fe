# SPDX-License-Identifier: Apache-2.0
"""Peers side by side: each load has a panel, with tokens per second and peak memory for each number of ranks."""

from lib import axes, svg
from lib.table import MIB

WIDTH, NAMES, GAP, ROOM, RIGHT = 960, 176, 14, 50, 6
BAR, PITCH, GROUP = 10, 15, 6
HEADING, AXIS = 52, 44
LEGEND = [("Zeroth", "zeroth"), ("peers", "peer"), ("range over rounds", "range")]


def chart(peers, rows):
    """rows: (system, variant, contender, whether it is ours). Scales are common to the columns of a load."""
    parts, top = [*svg.legend(LEGEND, 20, 24)], 36
    if any(name in peers.summary.get(setting, {}) for setting, failed in peers.failures.items() for name in failed):
        parts.append(svg.text("* not every round ran", x=WIDTH - RIGHT, y=24, text_anchor="end", class_="bad"))
    for load in dict.fromkeys(load for load, _ in peers.settings):
        parts += _panel(peers, load, rows, top)
        top += HEADING + _height(rows) + AXIS
    return svg.figure(WIDTH, top, parts, "Tokens per second and peak memory per rank of Zeroth and its peers")


def _panel(peers, load, rows, top):
    counts = [ranks for name, ranks in peers.settings if name == load]
    width = (WIDTH - NAMES - RIGHT - GAP * (2 * len(counts) - 1)) / (2 * len(counts))
    yield svg.text(peers.loads[load], x=20, y=top + 26, class_="heading")
    yield from _names(rows, top + HEADING)
    for measure, columns in ((_Speed, 0), (_Memory, len(counts))):
        shown = [peers.summary.get((load, ranks), {}).get(name) for ranks in counts for _, _, name, _ in rows]
        high = max((measure.value(figures) for figures in shown if figures), default=1)
        for index, ranks in enumerate(counts):
            left = NAMES + (columns + index) * (width + GAP)
            axis = axes.Linear(0, high, left, left + width - ROOM, wanted=3)
            yield svg.group(_column(peers, (load, ranks), rows, measure, axis, top),
                            f"{load}, {ranks} ranks, {measure.caption}")


class _Speed:
    caption = "tokens per second"

    @staticmethod
    def value(figures):
        return figures.tokens_per_s

    @staticmethod
    def ends(figures):
        return figures.range


class _Memory:
    caption = "peak MiB per rank above idle"

    @staticmethod
    def value(figures):
        return figures.peak_bytes / MIB

    @staticmethod
    def ends(figures):
        return None


def _height(rows):
    return len(rows) * PITCH + len({system for system, *_ in rows}) * GROUP


def _lines(rows, top):
    """Each row with its y, a gap before each system."""
    y, before = top - BAR / 2, None
    for row in rows:
        y += PITCH + (GROUP if before not in (None, row[0]) else 0)
        yield y - BAR / 2 + 2, before != row[0], row
        before = row[0]


def _names(rows, top):
    for y, first, (system, variant, _, _) in _lines(rows, top):
        if first:
            yield svg.text(system, x=20, y=y + BAR - 1, class_="small strong")
        yield svg.text(variant, x=NAMES - 10, y=y + BAR - 1, text_anchor="end", class_="small soft")


def _column(peers, setting, rows, measure, axis, top):
    load, ranks = setting
    yield svg.text(f"{ranks} ranks", x=axis.begin, y=top + 44, class_="strong")
    top += HEADING
    yield from axes.grid_across(axis, top, top + _height(rows), measure.caption, small=True)
    for y, _, (system, variant, name, ours) in _lines(rows, top):
        figures = peers.summary.get(setting, {}).get(name)
        failures = peers.failures.get(setting, {}).get(name, [])
        where = f"{load}, {ranks} ranks, {system} {variant}"
        if figures is None:
            hint = svg.hint(f"{where}: {failures[0]}") if failures else ""
            word, colour = ("did not run", "bad") if failures else ("not measured", "soft")
            yield svg.element("text", hint + word, x=axis.begin + 4, y=y + BAR - 1, class_=f"small {colour}")
            continue
        value = measure.value(figures)
        end = max(axis.at(value), axis.begin + 0.75)
        yield svg.element("rect", svg.hint(f"{where}: {value:,.0f} {measure.caption}"), x=axis.begin, y=y,
                          width=end - axis.begin, height=BAR, class_="zeroth" if ours else "peer")
        if measure.ends(figures):
            low, high = (axis.at(at) for at in measure.ends(figures))
            yield svg.element("line", x1=low, x2=high, y1=y + BAR / 2, y2=y + BAR / 2, class_="range")
            end = max(end, high)
        star = svg.element("tspan", svg.hint(f"{where}: {failures[0]}") + "*", class_="bad") if failures else ""
        yield svg.element("text", f"{value:,.0f}{star}", x=end + 5, y=y + BAR - 1, class_="small strong")
