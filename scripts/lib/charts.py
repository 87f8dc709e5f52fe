"""The three charts of the page: memory, loss and time. Colours are classes, which the page's style sheet defines."""

from lib import svg
from lib.runs import CATEGORIES
from lib.table import MIB, saving

WIDTH = 960
LEFT, RIGHT = 96, 104


def memory(runs):
    """Per run two stacked bars by category: planned (outlined) and measured (filled)."""
    bar, gap, top = 26, 34, 8
    height = top + len(runs) * (2 * bar + gap) + 44
    largest = max(run.bytes(kind, "total") for run in runs for kind in ("planned", "measured_peak")) / MIB
    axis = _horizontal_axis(0, largest, top, height - 52, "MiB per rank")
    parts = [*axis.parts]
    for index, run in enumerate(runs):
        y = top + gap / 4 + index * (2 * bar + gap)
        parts.append(svg.text(run.label, x=LEFT - 12, y=y + bar + 5, text_anchor="end", class_="strong"))
        for row, (kind, word) in enumerate((("planned", "planned"), ("measured_peak", "measured"))):
            parts += _stack(run, kind, word, axis.at, y + row * bar, bar - 3)
        total = run.bytes("measured_peak", "total")
        parts.append(svg.text(f"{total / MIB:.1f} MiB", x=axis.at(total / MIB) + 10, y=y + bar, class_="strong"))
        if run is not runs[0]:
            parts.append(svg.text(f"{saving(run, runs[0])} saved", x=axis.at(total / MIB) + 10, y=y + bar + 17,
                                  class_="soft"))
    return svg.figure(WIDTH, height, parts, "Memory per rank by category, planned and measured")


def _stack(run, kind, word, at, y, height):
    end = 0.0
    for category in CATEGORIES:
        amount = run.bytes(kind, category) / MIB
        x, width = at(end), at(end + amount) - at(end)
        end += amount
        if amount == 0:
            continue
        hint = svg.element("title", f"{run.label}, {word} {category}: {amount:.2f} MiB")
        yield svg.element("rect", hint, x=x, y=float(y), width=max(width, 0.75), height=float(height),
                          class_=f"{word} {category}")
        label = f"{amount:.1f}"
        if width > 9 * len(label):
            yield svg.text(label, x=x + width / 2, y=y + height / 2 + 4.5, text_anchor="middle",
                           class_=f"inside {word}")


def loss(runs):
    """Loss by step. Equal curves lie on each other: the first is drawn widest, the last thinnest."""
    height, top, bottom = 340, 14, 292
    every = [value for run in runs for value in run.losses]
    steps = max(len(run.steps) for run in runs)
    marks = svg.ticks(min(every), max(every))
    low, high = marks[0], marks[-1]

    def y_of(value):
        return bottom - (value - low) / (high - low) * (bottom - top)

    axis = _horizontal_axis(1, max(steps, 2), top, bottom, "step", whole=True)
    parts = [*axis.parts, svg.text("loss (nats per byte)", x=LEFT - 60, y=(top + bottom) / 2, class_="axis",
                                   text_anchor="middle", transform=f"rotate(-90 {LEFT - 60} {(top + bottom) / 2})")]
    for mark in marks:
        parts.append(svg.element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y_of(mark), y2=y_of(mark), class_="grid"))
        parts.append(svg.text(svg.tick_text(mark, marks[1] - marks[0]), x=LEFT - 10, y=y_of(mark) + 4,
                              text_anchor="end", class_="axis"))
    for index, run in enumerate(runs):
        points = " ".join(f"{axis.at(step):.1f},{y_of(value):.1f}" for step, value in enumerate(run.losses, start=1))
        width = 2.0 + 3.2 * (len(runs) - 1 - index)
        hint = svg.element("title", f"{run.label}: {run.losses[-1]:.9g} after {len(run.steps)} steps")
        parts.append(svg.element("polyline", hint, points=points, stroke_width=width, class_=f"curve run{index % 6}"))
    last = runs[-1].losses[-1]
    parts.append(svg.text(f"{last:.4f}", x=axis.at(len(runs[-1].steps)) + 10, y=y_of(last) + 4, class_="strong"))
    return svg.figure(WIDTH, height, parts, "Loss by step")


def time(runs):
    """Per run the median step: hidden in compute, and communication that was waited for."""
    bar, gap, top = 26, 18, 8
    height = top + len(runs) * (bar + gap) + 48
    axis = _horizontal_axis(0, max(run.settled("step_ms") for run in runs), top, height - 52, "ms per step (median)")
    parts = [*axis.parts]
    for index, run in enumerate(runs):
        y = top + gap / 2 + index * (bar + gap)
        step = run.settled("step_ms")
        exposed = min(run.settled("exposed_comm_ms"), step)
        parts.append(svg.text(run.label, x=LEFT - 12, y=y + bar / 2 + 5, text_anchor="end", class_="strong"))
        for word, begin, end in (("compute", 0.0, step - exposed), ("exposed", step - exposed, step)):
            hint = svg.element("title", f"{run.label}, {word}: {end - begin:.1f} ms")
            parts.append(svg.element("rect", hint, x=axis.at(begin), y=float(y), width=axis.at(end) - axis.at(begin),
                                     height=float(bar), class_=f"measured {word}"))
        parts.append(svg.text(f"{run.settled('tokens_per_s'):,.0f} tok/s", x=axis.at(step) + 10, y=y + bar / 2 + 5,
                              class_="strong"))
    return svg.figure(WIDTH, height, parts, "Time per step and tokens per second")


class _horizontal_axis:
    """A scale over the width of the chart, with grid lines from `top` to `bottom` and a caption below."""

    def __init__(self, low, high, top, bottom, caption, whole=False):
        marks = svg.ticks(low, high)
        if whole:
            marks = sorted({low, *(m for m in marks if low < m <= high and m == int(m))})
            self._low, self._high = low, high
        else:
            self._low, self._high = marks[0], marks[-1]
        step = 1 if whole else marks[1] - marks[0]
        self.parts = []
        for mark in marks:
            x = self.at(mark)
            self.parts.append(svg.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
            self.parts.append(svg.text(svg.tick_text(mark, step), x=x, y=bottom + 18, text_anchor="middle",
                                       class_="axis"))
        self.parts.append(svg.text(caption, x=(LEFT + WIDTH - RIGHT) / 2, y=bottom + 40, text_anchor="middle",
                                   class_="axis"))

    def at(self, value):
        return LEFT + (value - self._low) / (self._high - self._low) * (WIDTH - LEFT - RIGHT)
