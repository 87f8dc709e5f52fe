# SPDX-License-Identifier: Apache-2.0
"""Runs of train_gpt, read from their --report files."""

import statistics
from dataclasses import dataclass, field

from lib.records import Record, ReportError, read_lines

CATEGORIES = ("parameters", "gradients", "optimizer", "slots", "scratch")


@dataclass
class Run:
    label: str
    path: str
    facts: Record = None  # the "run" record, if there is one
    steps: list = field(default_factory=list)  # the "step" records, in order
    memory: list = field(default_factory=list)  # the "memory" records, one per rank

    @property
    def begins_behind(self):
        """The step of the checkpoint that it resumed from; 0 if it started anew."""
        is_resumed = self.facts and self.facts.fields.get("resumed") is not None
        return self.facts.record("resumed").count("step") if is_resumed else 0

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
        """The median of `key` over the steps, without the first tenth (cold caches, first page faults)."""
        first = (len(self.steps) + 9) // 10 if len(self.steps) > 1 else 0
        return statistics.median(step[key] for step in self.steps[first:])


def read_run(label, path):
    """A run that has its first step."""
    run = read_part(label, path)
    if run.begins_behind:
        run.facts.fail(f"resumes from step {run.begins_behind} of {run.facts.record('resumed').text('checkpoint')}; "
                       "it is compared as the second file of --resumed")
    return run


def read_part(label, path):
    """A run, or the part of a run that was resumed from a checkpoint."""
    run = Run(label, path)
    for record in read_lines(path):
        _take(run, record)
    if not run.steps:
        raise ReportError(f"{path}: no step was recorded")
    if not run.memory:
        raise ReportError(f"{path}: no memory was recorded; did the run end early?")
    return run


def _take(run, record):
    kind = record.one_of("record", ("run", "step", "memory"))
    if kind == "run":
        run.facts = record
    elif kind == "step":
        expected = run.begins_behind + len(run.steps) + 1
        if record.count("step") != expected:
            record.fail(f"step {record.count('step')} where step {expected} should be")
        run.steps.append({"loss": record.number("loss"), "step_ms": record.number("step_ms", above=0),
                          "tokens_per_s": record.number("tokens_per_s", above=0),
                          "exposed_comm_ms": record.amount("exposed_comm_ms")})
    else:
        run.memory.append({kind: _by_category(record.record(kind)) for kind in ("planned", "measured_peak")})


def _by_category(record):
    held = {category: record.count(category) for category in (*CATEGORIES, "total")}
    whole = sum(held[category] for category in CATEGORIES)
    if whole != held["total"]:
        record.fail(f"adds up to {whole}, not to total, {held['total']}")
    return held


def first_difference(runs):
    """The first step whose loss differs between runs, or None. Equal means equal in every digit written."""
    for step, losses in enumerate(zip(*(run.losses for run in runs)), start=1):
        if len(set(losses)) > 1:
            return step
    lengths = {len(run.steps) for run in runs}
    return min(lengths) + 1 if len(lengths) > 1 else None
