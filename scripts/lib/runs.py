"""Runs of train_gpt, as their --report files tell them."""

import json
import statistics
from dataclasses import dataclass, field

CATEGORIES = ("parameters", "gradients", "optimizer", "slots", "scratch")


class ReportError(Exception):
    """A file that is no report, or not a whole one: names the file, and the line where there is one."""


@dataclass
class Run:
    label: str
    path: str
    facts: dict = field(default_factory=dict)  # the "run" record
    steps: list = field(default_factory=list)  # the "step" records, in order
    memory: list = field(default_factory=list)  # the "memory" records, one per rank

    @property
    def losses(self):
        return [step["loss"] for step in self.steps]

    @property
    def fullest_rank(self):
        """The memory record of the rank that planned the most."""
        return max(self.memory, key=lambda record: record["planned"]["total"])

    def bytes(self, kind, category):
        return self.fullest_rank[kind][category]

    @property
    def as_planned(self):
        return all(record["planned"] == record["measured_peak"] for record in self.memory)

    def settled(self, key):
        """The median of `key` over the steps, without the first tenth of them (caches, first page faults)."""
        first = (len(self.steps) + 9) // 10 if len(self.steps) > 1 else 0
        return statistics.median(step[key] for step in self.steps[first:])


def read_run(label, path):
    run = Run(label, path)
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    _take(run, json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise ReportError(f"{path}:{number}: no record of a run: {error}") from error
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    if not run.steps:
        raise ReportError(f"{path}: no step was recorded")
    if not run.memory:
        raise ReportError(f"{path}: no memory was recorded; did the run end early?")
    return run


def _take(run, record):
    kind = record["record"]
    if kind == "run":
        run.facts = record
    elif kind == "step":
        expected = len(run.steps) + 1
        if record["step"] != expected:
            raise ValueError(f"step {record['step']} where step {expected} should be")
        for key in ("loss", "step_ms", "tokens_per_s", "exposed_comm_ms"):
            float(record[key])
        run.steps.append(record)
    elif kind == "memory":
        for key in ("planned", "measured_peak"):
            whole = sum(record[key][category] for category in CATEGORIES)
            if whole != record[key]["total"]:
                raise ValueError(f"rank {record['rank']}: {key} adds up to {whole}, not {record[key]['total']}")
        run.memory.append(record)
    else:
        raise ValueError(f'"{kind}" is not "run", "step" or "memory"')


def first_difference(runs):
    """The first step whose loss is not the same in all runs, or None. Equal means every digit that was written."""
    for step, losses in enumerate(zip(*(run.losses for run in runs)), start=1):
        if len(set(losses)) > 1:
            return step
    lengths = {len(run.steps) for run in runs}
    return min(lengths) + 1 if len(lengths) > 1 else None
