# SPDX-License-Identifier: Apache-2.0
"""Step time by stage, with a panel for each load and number of ranks. Each load is a row."""

from lib import bars, svg

WIDTH, LEFT, RIGHT, GAP, ROOM = 960, 84, 12, 84, 116
HEADING = 58


def chart(times):
    ranks = sorted({count for _, count in times.settings})
    width = (WIDTH - LEFT - RIGHT - GAP * (len(ranks) - 1)) / len(ranks)
    parts, top = [*svg.legend(bars.LEGEND, 20, 24)], 38
    for load, description in times.loads.items():
        parts.append(svg.text(description, x=20, y=top + 22, class_="heading"))
        for column, count in enumerate(ranks):
            if (load, count) in times.settings:
                left = LEFT + column * (width + GAP)
                name = f"{load}, {count} ranks"
                parts.append(svg.group(_panel(name, count, times.settings[load, count], left, left + width, top), name))
        top += HEADING + bars.height(range(4)) + 10
    return svg.figure(WIDTH, top, parts, "Time per step at stages 0 to 3, with exposed communication")


def _panel(name, ranks, stages, left, right, top):
    rows = [(f"stage {stage}", f"{name}, stage {stage}", s.step_ms, s.exposed_ms, f"{s.ratio:.2f} × stage 0")
            for stage, s in enumerate(stages)]
    rows[0] = (*rows[0][:4], f"{stages[0].step_ms:,.{0 if stages[0].step_ms >= 100 else 1}f} ms")
    yield svg.text(f"{ranks} ranks", x=left, y=top + 46, class_="strong")
    yield from bars.time_bars(rows, left, right, top + HEADING, ROOM)
