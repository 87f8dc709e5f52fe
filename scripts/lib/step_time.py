# SPDX-License-Identifier: Apache-2.0
"""Step times of stages 0 to 3, from the lines of bench_step_time."""

from dataclasses import dataclass, field

from lib import markdown, page, step_time_chart, style, svg
from lib.loads import description
from lib.records import ReportError, read_lines

NAME, TITLE = "step_time", "Step time, stage by stage"
SOURCES = ("step_time.jsonl",)
PICTURES = ("step_time.svg",)
# Two engines of stage 0 differ by noise only.
NOISE = "Stages took turns in one run; stage 0 over a second engine of stage 0 is the noise."


@dataclass
class Stage:
    step_ms: float
    exposed_ms: float
    tokens_per_s: float
    ratio: float  # to stage 0
    quartiles: tuple
    rounds: int


@dataclass
class StepTimes:
    loads: dict = field(default_factory=dict)  # {name: description}
    settings: dict = field(default_factory=dict)  # {(load, ranks): stages 0 to 3}, in the file's order


def read(folder):
    path = folder / SOURCES[0]
    times = StepTimes()
    for record in read_lines(path):
        record.one_of("benchmark", ("step_time",))
        load, ranks, stage = record.text("load"), record.count("ranks", 1), record.one_of("stage", (0, 1, 2, 3))
        told = description(load, record)
        if times.loads.setdefault(load, told) != told:
            record.fail(f"load {told}, before {times.loads[load]}")
        stages = times.settings.setdefault((load, ranks), {})
        if stage in stages:
            record.fail(f"stage is {stage} for the second time for load {load} on {ranks} ranks")
        stages[stage] = _stage(record)
    for (load, ranks), stages in times.settings.items():
        if sorted(stages) != [0, 1, 2, 3]:
            raise ReportError(f"{path}: load {load} on {ranks} ranks has stages {sorted(stages)}; they must be 0 to 3")
        rounds = {stage.rounds for stage in stages.values()}
        if len(rounds) > 1:
            raise ReportError(f"{path}: load {load} on {ranks} ranks has rounds {sorted(rounds)}; they must be the same")
        times.settings[load, ranks] = [stages[stage] for stage in range(4)]
    return times


def _stage(record):
    step_ms, exposed_ms = record.number("step_ms", above=0), record.amount("exposed_comm_ms")
    if exposed_ms > step_ms:
        record.fail(f"exposed_comm_ms is {exposed_ms:g}, more than step_ms, {step_ms:g}")
    ratio, (low, high) = record.number("ratio_to_stage_0", above=0), record.interval("ratio_quartiles")
    if not low <= ratio <= high:
        record.fail(f"ratio_to_stage_0 is {ratio:g}, outside ratio_quartiles, {low:g} to {high:g}")
    return Stage(step_ms, exposed_ms, record.number("tokens_per_s", above=0), ratio, (low, high),
                 record.count("rounds", 1))


def claims(_):
    return []


def pictures(times):
    return {"step_time.svg": svg.alone(step_time_chart.chart(times), style.DRAWING)}


def as_markdown(times, folder):
    header, rows = _table(times)
    return "\n".join([
        markdown.picture("Time per step at stages 0 to 3, with the communication that was waited for",
                         f"{folder}/step_time.svg"),
        f"{_explanation(times)}\n",
        markdown.table(header, [[markdown.plain(cell) for cell in row] for row in rows])])


def as_html(times):
    return page.note(_explanation(times)) + page.chart(step_time_chart.chart(times)) + page.table(*_table(times))


def _explanation(times):
    rounds = " or ".join(map(str, sorted({stages[0].rounds for stages in times.settings.values()})))
    return f"Step time over that of stage 0: the median of {rounds} rounds, and the quartiles. {NOISE}"


def _table(times):
    header = ["load", "ranks", "stage 0 again", "stage 1", "stage 2", "stage 3", "tokens/s at stage 3"]
    rows = [[load, str(ranks), *(f"{s.ratio:.2f} ({s.quartiles[0]:.2f} - {s.quartiles[1]:.2f})" for s in stages),
             f"{stages[3].tokens_per_s:,.0f}"] for (load, ranks), stages in times.settings.items()]
    return header, rows
