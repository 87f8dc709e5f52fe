# SPDX-License-Identifier: Apache-2.0
"""Scales from values to positions in a drawing, with marks at round values, and the grids that show them."""

import math

from lib import svg


class Linear:
    """A linear scale from below `low` to above `high`, rounded to marks, between positions `begin` and `end`."""

    def __init__(self, low, high, begin, end, wanted=6):
        self.marks = ticks(low, high, wanted)
        self.low, self.high = self.marks[0], self.marks[-1]
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def label(self, mark):
        return tick_text(mark, self.marks[1] - self.marks[0])


class Steps(Linear):
    """A linear scale with marks at whole numbers, from exactly `low` to exactly `high`."""

    def __init__(self, low, high, begin, end):
        super().__init__(low, high, begin, end)
        self.low, self.high = low, high
        self.marks = sorted({low, *(mark for mark in self.marks if low < mark <= high and mark == int(mark))})

    def label(self, mark):
        return tick_text(mark, 1)


class Log:
    """A log scale from exactly `low` to exactly `high`, both above 0, with marks at the powers of `base` between
    them."""

    def __init__(self, low, high, begin, end, base, label):
        self.low, self.high, self.begin, self.end, self.label = low, high, begin, end, label
        first = math.ceil(math.log(low, base) - 1e-9)
        last = math.floor(math.log(high, base) + 1e-9)
        self.marks = [float(base)**power for power in range(first, last + 1)]

    def at(self, value):
        return self.begin + math.log(value / self.low) / math.log(self.high / self.low) * (self.end - self.begin)


def grid_across(axis, top, bottom, caption, small=False):
    """Marks of a horizontal axis below `bottom`, and the caption below them. 42 high in all, 34 if small."""
    size = " small" if small else ""
    for mark in axis.marks:
        x = axis.at(mark)
        yield svg.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid")
        yield svg.text(axis.label(mark), x=x, y=bottom + (15 if small else 18), text_anchor="middle",
                       class_="axis" + size)
    yield svg.text(caption, x=(axis.begin + axis.end) / 2, y=bottom + (31 if small else 38), text_anchor="middle",
                   class_="axis" + size)


def grid_up(axis, left, right, caption, labels=True):
    """Marks of a vertical axis left of `left`, the caption left of them."""
    for mark in axis.marks:
        y = axis.at(mark)
        yield svg.element("line", x1=left, x2=right, y1=y, y2=y, class_="grid")
        if labels:
            yield svg.text(axis.label(mark), x=left - 10, y=y + 4, text_anchor="end", class_="axis")
    if labels:
        x, y = left - 66, (axis.begin + axis.end) / 2
        yield svg.text(caption, x=x, y=y, class_="axis", text_anchor="middle", transform=f"rotate(-90 {x:g} {y:g})")


def ticks(low, high, wanted=6):
    """Round numbers from below `low` to at least `high`, about `wanted` of them."""
    span = (high - low) or abs(high) or 1.0
    raw = span / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def tick_text(value, step):
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:  # 2.5, 0.25 ...
        decimals += 1
    return f"{value:,.{decimals}f}"
