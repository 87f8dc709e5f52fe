# SPDX-License-Identifier: Apache-2.0
"""Reads the file of bench/peers/run.py: runs on a maker's processor, failures, and whether losses agree."""

import re
from dataclasses import dataclass, field

from lib import benchmarks
from lib.loads import description
from lib.records import read_document


@dataclass
class Figures:
    tokens_per_s: float
    range: tuple
    peak_bytes: float  # per rank, above an idle process
    slower_than: dict  # {zeroth0 or zeroth3: its speed over this one's}; None if no round has both
    rounds: int
    final_loss: float


@dataclass
class Peers:
    """The runs of one precision."""
    rounds: int
    math: str  # library of Zeroth's matrix products
    loads: dict  # {name: description}
    summary: dict = field(default_factory=dict)  # {(load, ranks): {contender: Figures}}
    failures: dict = field(default_factory=dict)  # {(load, ranks): {contender: [last line of an error, ...]}}
    problems: list = field(default_factory=list)  # losses that are not Zeroth's

    @property
    def settings(self):
        return list(dict.fromkeys([*self.summary, *self.failures]))


@dataclass
class Kept:
    """A file."""
    name: str  # without .json
    maker: str
    processor: str
    machine: str  # memory and operating system
    versions: str
    by_precision: dict  # {precision: Peers}


own = benchmarks.own("table")
PRECISIONS = tuple(own.LOSS_BOUNDS)


def contender(system, variant):
    """The key of this entry in the file's summary."""
    return own.label({"system": system, "variant": variant})


def read_kept(path):
    document = read_document(path)
    document.one_of("benchmark", ("peers",))
    maker = document.record("machine").text("maker")
    if path.name != own.file_of(maker):
        document.fail(f'its processor is of "{maker}"; such a file is called {own.file_of(maker)}')
    loads = document.record("loads")
    runs = [_run(record, loads) for record in document.records("runs")]
    if not runs:
        document.fail("runs is empty: nothing ran")
    _check_summary(document, runs)
    failures = document.records("failures")
    precisions = {run["precision"] for run in runs} | {record.one_of("precision", PRECISIONS) for record in failures}
    kept = Kept(path.stem, maker, *_machine(document), _versions(document),
                {precision: _of(precision, document, loads, runs) for precision in PRECISIONS if precision in precisions})
    for record in failures:
        setting = record.one_of("load", tuple(loads.fields)), record.count("ranks", 1)
        name = contender(record.text("system"), record.text("variant"))
        lines = record.text("error").strip().splitlines() or ["no message"]
        failed = kept.by_precision[record.text("precision")].failures.setdefault(setting, {})
        failed.setdefault(name, []).append(lines[-1].strip())
    return kept


def _of(precision, document, loads, runs):
    described = {name: description(name, loads.record(name)) for name in loads.fields}
    mine = [run for run in runs if run["precision"] == precision]
    peers = Peers(document.count("rounds", 1), document.record("math").text(precision), described,
                  problems=own.wrong_losses(mine))
    for entry in own.summarise(mine):
        peers.summary.setdefault((entry["load"], entry["ranks"]), {})[entry["contender"]] = Figures(
            entry["tokens_per_s"], tuple(entry["tokens_per_s_range"]), entry["peak_bytes_per_rank"],
            {ours: entry[f"{ours}_is_times_as_fast"] for ours in (own.UNSHARDED, own.BASE)}, entry["rounds"],
            entry["final_loss"])
    return peers


def _run(record, loads):
    """The fields from which figures are computed, all checked."""
    return {"precision": record.one_of("precision", PRECISIONS),
            "load": record.one_of("load", tuple(loads.fields)), "ranks": record.count("ranks", 1),
            "round": record.count("round"), "system": record.text("system"), "variant": record.text("variant"),
            "tokens_per_s": record.number("tokens_per_s", above=0), **record.losses_and_peaks()}


def _check_summary(document, runs):
    """Checks that the file's summary agrees with its runs."""
    told = document.records("summary")
    made = {(entry["precision"], entry["load"], entry["ranks"], entry["contender"]): entry for entry in own.summarise(runs)}
    if len(told) != len(made):
        document.fail(f"summary has {len(told)} entries, its runs make {len(made)}")
    for record in told:
        entry = made.get((record.text("precision"), record.text("load"), record.count("ranks"), record.text("contender")))
        if entry is None:
            record.fail("contender has no runs")
        for key, value in entry.items():
            if record.fields.get(key) != value and value == value:  # a loss may be NaN
                record.fail(f"{key} is {record.fields.get(key)}, its runs make {value}")


def _machine(document):
    machine = document.record("machine")
    memory = re.sub(r"^(\d+) kB$", lambda found: f"{int(found[1]) / 2**20:.0f} GiB", machine.text("memory"))
    return (f"{machine.text('processor')} (instructions: {machine.text('instructions')}), {machine.count('cores', 1)} cores",
            f"{memory}, {machine.text('system')}")


def _versions(document):
    versions = document.record("versions")
    return ", ".join([f"Zeroth {document.text('zeroth')}", *(f"{name} {versions.text(name)}" for name in sorted(versions.fields))])
