# SPDX-License-Identifier: Apache-2.0
"""Bars of time per step. Exposed communication is a part of the bar."""

from lib import axes, svg

LEGEND = [("compute and hidden communication", "compute"), ("exposed communication", "exposed")]
BAR, PITCH = 24, 36


def height(rows):
    """The height of time_bars with its axis."""
    return len(rows) * PITCH + 46


def time_bars(rows, left, right, top, room):
    """One bar for each of `rows`: (label, name for the hint, step ms, exposed ms, note). `room`: width right of the
    axis."""
    bottom = top + len(rows) * PITCH
    axis = axes.Linear(0, max(step for _, _, step, _, _ in rows), left, right - room)
    yield from axes.grid_across(axis, top, bottom, "ms per step (median)")
    for index, (label, name, step, exposed, note) in enumerate(rows):
        y = top + (PITCH - BAR) / 2 + index * PITCH
        yield svg.text(label, x=left - 12, y=y + BAR / 2 + 5, text_anchor="end", class_="strong")
        for word, begin, end in (("compute", 0.0, step - exposed), ("exposed", step - exposed, step)):
            if end > begin:
                hint = svg.hint(f"{name}, {word}: {end - begin:.1f} ms")
                yield svg.element("rect", hint, x=axis.at(begin), y=float(y), width=axis.at(end) - axis.at(begin),
                                  height=float(BAR), class_=f"measured {word}")
        yield svg.text(note, x=axis.at(step) + 8, y=y + BAR / 2 + 5, class_="strong")
