# SPDX-License-Identifier: Apache-2.0
"""Memory per rank by number of ranks, from lines of `zeroth plan --json`, compared with the ZeRO paper's table."""

from dataclasses import dataclass, field

from lib import markdown, page, savings_chart, style, svg, zero_paper
from lib.records import ReportError, read_lines

NAME, TITLE = "savings", "Savings against the number of ranks"
SOURCES = ("savings.jsonl",)
PICTURES = ("savings.svg",)
STATES = ("parameters", "gradients", "optimizer")
CATEGORIES = (*STATES, "slots", "scratch", "padding")
GB = 10**9
EXPLANATION = ("Planned by zeroth plan with 16 bytes per parameter. Model states are parameters, gradients and optimizer; "
               "slots for gathered units, scratch memory and padding come on top, and follow the largest unit instead of "
               "the number of ranks. Circles: table 1 of the ZeRO paper.")


@dataclass
class Model:
    parameters: int
    units: int
    device_memory: int  # bytes; 0 if no limit was given
    by_ranks: dict = field(default_factory=dict)  # {ranks: for stages 0 to 3 {category or "states" or "total": bytes}}

    @property
    def name(self):
        for unit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
            if self.parameters >= unit:
                return f"{self.parameters / unit:.4g}{letter}"
        return str(self.parameters)


def read(folder):
    """Models in order of size."""
    models = {}
    path = folder / SOURCES[0]
    for record in read_lines(path):
        told = record.record("model")
        parameters, units, ranks = told.count("parameters", 1), told.count("units", 1), record.count("ranks", 1)
        limit = record.count("device_memory", 1) if "device_memory" in record else 0
        model = models.setdefault(parameters, Model(parameters, units, limit))
        if (units, limit) != (model.units, model.device_memory):
            record.fail(f"model.units and device_memory are {units} and {limit}, before {model.units} and "
                        f"{model.device_memory} for the same model")
        if ranks in model.by_ranks:
            record.fail(f"ranks is {ranks} for the second time for {parameters} parameters")
        model.by_ranks[ranks] = _stages(record)
    first = next(iter(models.values()))
    for model in models.values():
        if set(model.by_ranks) != set(first.by_ranks) or len(model.by_ranks) < 2:
            raise ReportError(f"{path}: ranks are {sorted(model.by_ranks)} for model {model.name} and "
                              f"{sorted(first.by_ranks)} for {first.name}; they must be the same two or more")
    return sorted(models.values(), key=lambda model: model.parameters)


def _stages(record):
    stages = []
    for wanted, stage in enumerate(record.records("stages")):
        stage.one_of("stage", (wanted,))
        if "refused" in stage:
            stage.fail("refused: a plan of every stage is needed")
        held = {category: stage.count(category) for category in CATEGORIES}
        whole = sum(held.values())
        if whole != stage.count("total"):
            stage.fail(f"adds up to {whole}, not to total, {stage.count('total')}")
        held["total"] = whole
        held["states"] = sum(held[category] for category in STATES)
        if held["states"] == 0:
            stage.fail("parameters, gradients and optimizer are 0")
        stages.append(held)
    if len(stages) != 4:
        record.fail(f"stages holds {len(stages)} stages; there must be 4")
    return stages


def claims(models):
    compared = [(model, ranks, stage, printed) for model in models
                for ranks, stage, printed in zero_paper.points(model.parameters) if ranks in model.by_ranks]
    off = []
    for model, ranks, stage, printed in compared:
        planned = model.by_ranks[ranks][stage]["states"] / GB
        if not zero_paper.agrees(planned, printed):
            off.append(f"{model.name} on {ranks} ranks at stage {stage}: {planned:.4g}, printed {printed}")
    if off:
        return [(False, "Not as in the ZeRO paper's table 1: " + "; ".join(off) + ".")]
    if not compared:
        return []
    return [(True, f"All {len(compared)} figures of the ZeRO paper's table 1 are met to the last printed digit; the paper "
                   "rounds some and cuts off others.")]


def pictures(models):
    return {"savings.svg": svg.alone(savings_chart.chart(models), style.DRAWING)}


def as_markdown(models, folder):
    return "\n".join([
        markdown.picture("Model states per rank against the number of ranks, log scale, with the ZeRO paper's points",
                         f"{folder}/savings.svg"),
        f"{EXPLANATION}\n",
        markdown.table(*_excerpt(models)),
        *(sentence for _, sentence in claims(models))]) + "\n"


def as_html(models):
    return (page.claims(claims(models)) + page.note(EXPLANATION) + page.chart(savings_chart.chart(models)) +
            page.table(*_excerpt(models), names=2))


def _excerpt(models):
    """Model states and total memory, on 64 ranks and on the largest number of ranks."""
    ranks = sorted(models[0].by_ranks)
    shown = [ranks[-1]] if 64 not in ranks[:-1] else [64, ranks[-1]]
    header = ["GB per rank: model states (all that is held)", "ranks", *(f"stage {stage}" for stage in range(4))]
    rows = [[model.name, str(count),
             *(f"{_gb(held['states'])} ({_gb(held['total'])})" for held in model.by_ranks[count])]
            for model in models for count in shown]
    return header, rows


def _gb(count):
    return f"{count / GB:,.0f}" if count >= 100 * GB else f"{count / GB:.3g}"
