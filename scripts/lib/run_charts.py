# SPDX-License-Identifier: Apache-2.0
"""The three charts of runs of train_gpt: memory, loss and time. Colours are classes of lib.style."""

from lib import axes, bars, svg
from lib.runs import CATEGORIES
from lib.table import MIB, saving

WIDTH = 960
LEFT, RIGHT = 96, 104
LEGEND_Y = 24


def memory(runs):
    """Two bars per run, stacked by category: planned (outlined) and measured (filled)."""
    bar, gap, top = 26, 34, 42
    bottom = top + len(runs) * (2 * bar + gap) - 8
    largest = max(run.bytes(kind, "total") for run in runs for kind in ("planned", "measured_peak")) / MIB
    axis = axes.Linear(0, largest, LEFT, WIDTH - RIGHT)
    parts = [*svg.legend([*((category, category) for category in CATEGORIES), ("outlined: planned", "scratch planned"),
                          ("filled: measured", "scratch measured")], 20, LEGEND_Y),
             *axes.grid_across(axis, top, bottom, "MiB per rank")]
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
    return svg.figure(WIDTH, bottom + 46, parts, "Memory per rank by category, planned and measured")


def _stack(run, kind, word, at, y, height):
    end = 0.0
    for category in CATEGORIES:
        amount = run.bytes(kind, category) / MIB
        x, width = at(end), at(end + amount) - at(end)
        end += amount
        if amount == 0:
            continue
        hint = svg.hint(f"{run.label}, {word} {category}: {amount:.2f} MiB")
        yield svg.element("rect", hint, x=x, y=float(y), width=max(width, 0.75), height=float(height),
                          class_=f"{word} {category}")
        label = f"{amount:.1f}"
        if width > 9 * len(label):
            yield svg.text(label, x=x + width / 2, y=y + height / 2 + 4.5, text_anchor="middle",
                           class_=f"inside {word}")


def loss(runs, resumed_behind=None):
    """Loss by step. Equal curves cover each other: the first is drawn widest, the last thinnest. `resumed_behind`: the
    step after which the last run was saved and resumed."""
    top, bottom = 46, 324
    every = [value for run in runs for value in run.losses]
    across = axes.Steps(1, max(2, *(len(run.steps) for run in runs)), LEFT, WIDTH - RIGHT)
    up = axes.Linear(min(every), max(every), bottom, top)
    parts = [*svg.legend([(run.label, f"curve run{index % 6}") for index, run in enumerate(runs)], 20, LEGEND_Y),
             *axes.grid_across(across, top, bottom, "step"),
             *axes.grid_up(up, LEFT, WIDTH - RIGHT, "loss (nats per byte)")]
    for index, run in enumerate(runs):
        points = " ".join(f"{across.at(step):.1f},{up.at(value):.1f}" for step, value in enumerate(run.losses, start=1))
        width = 2.0 + 3.2 * (len(runs) - 1 - index)
        hint = svg.hint(f"{run.label}: {run.losses[-1]:.9g} after {len(run.steps)} steps")
        parts.append(svg.element("polyline", hint, points=points, stroke_width=width, class_=f"curve run{index % 6}"))
    if resumed_behind is not None:
        x = across.at(resumed_behind)
        parts += [svg.element("line", x1=x, x2=x, y1=float(top), y2=float(bottom), class_="range held"),
                  svg.text("saved, and gone on", x=x + 8, y=top + 14, class_="soft")]
    last = runs[-1].losses[-1]
    parts.append(svg.text(f"{last:.4f}", x=across.at(len(runs[-1].steps)) + 10, y=up.at(last) + 4, class_="strong"))
    return svg.figure(WIDTH, bottom + 46, parts, "Loss by step")


def time(runs):
    rows = []
    for run in runs:
        step = run.settled("step_ms")
        rows.append((run.label, run.label, step, min(run.settled("exposed_comm_ms"), step),
                     f"{run.settled('tokens_per_s'):,.0f} tok/s"))
    parts = [*svg.legend(bars.LEGEND, 20, LEGEND_Y), *bars.time_bars(rows, LEFT, WIDTH - 12, 42, RIGHT)]
    return svg.figure(WIDTH, 42 + bars.height(rows), parts, "Time per step and tokens per second")
