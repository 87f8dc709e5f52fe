# SPDX-License-Identifier: Apache-2.0
"""Bytes per rank by number of ranks, both on log scales: one panel per model, all on the same scale."""

from lib import axes, svg, zero_paper

WIDTH, LEFT, RIGHT, GAP = 960, 84, 24, 44
TOP, BOTTOM = 84, 400
LEGEND = [*((f"stage {stage}", f"curve stage{stage}") for stage in range(4)),
          ("with slots, scratch, padding", "curve held stage0"), ("ZeRO paper", "printed stage0")]


def chart(models):
    every = [held[kind] for model in models for stages in model.by_ranks.values() for held in stages
             for kind in ("states", "total")]
    up = axes.Log(min(every) / 1.5, max(every) * 1.5, BOTTOM, TOP, 10, bytes_text)
    width = (WIDTH - LEFT - RIGHT - GAP * (len(models) - 1)) / len(models)
    limits = sorted({model.device_memory for model in models if model.device_memory})
    parts = [*svg.legend([*LEGEND, *((f"{limit / 2**30:g} GiB", "limit") for limit in limits)], 20, 24)]
    for index, model in enumerate(models):
        left = LEFT + index * (width + GAP)
        parts.append(svg.group(_panel(model, up, left, left + width, index == 0), model.name))
    return svg.figure(WIDTH, BOTTOM + 48, parts, "Bytes per rank at stages 0 to 3 against the number of ranks")


def _panel(model, up, left, right, first):
    counts = sorted(model.by_ranks)
    across = axes.Log(counts[0], counts[-1], left, right, 4, lambda mark: f"{mark:.0f}")
    yield svg.text(f"{model.name} parameters", x=left, y=TOP - 14, class_="heading")
    yield from axes.grid_across(across, TOP, BOTTOM, "ranks")
    yield from axes.grid_up(up, left, right, "bytes per rank", labels=first)
    yield from _limit(model, up, left, right)
    for kind, name in (("total", "curve held"), ("states", "curve")):
        for stage in range(4):
            held = [model.by_ranks[ranks][stage][kind] for ranks in counts]
            points = " ".join(f"{across.at(ranks):.2f},{up.at(count):.2f}" for ranks, count in zip(counts, held))
            words = "model states" if kind == "states" else "all that is held"
            hint = svg.hint(f"{model.name}, stage {stage}, {words}: {bytes_text(held[0])} on {counts[0]} ranks, "
                            f"{bytes_text(held[-1])} on {counts[-1]}")
            yield svg.element("polyline", hint, points=points, stroke_width=2.2, class_=f"{name} stage{stage}")
    for ranks, stage, printed in zero_paper.points(model.parameters):
        if ranks in model.by_ranks:
            hint = svg.hint(f"ZeRO paper, {model.name}, stage {stage}, {ranks} ranks: {printed} GB")
            yield svg.element("circle", hint, cx=across.at(ranks), cy=up.at(float(printed) * 1e9), r=4,
                              class_=f"printed stage{stage}")


def _limit(model, up, left, right):
    if model.device_memory and up.low < model.device_memory < up.high:
        y = up.at(model.device_memory)
        yield svg.element("line", svg.hint(f"{model.device_memory / 2**30:g} GiB"), x1=left, x2=right, y1=y, y2=y,
                          class_="limit")


def bytes_text(count):
    for unit, name in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit * 0.9995:
            return f"{count / unit:.3g} {name}"
    return f"{count:.0f} B"
