# SPDX-License-Identifier: Apache-2.0
"""The file of bench/peers/run.py: what ran, what did not, and whether the losses agree."""

import importlib.util
import pathlib
import re
from dataclasses import dataclass, field

from lib.loads import description
from lib.records import read_document


@dataclass
class Figures:
    tokens_per_s: float
    range: tuple
    peak_bytes: float  # per rank, above an idle process
    times_as_fast: float  # Zeroth at stage 3 over this one, round by round; None where they share no round
    rounds: int
    final_loss: float


@dataclass
class Peers:
    rounds: int
    facts: list  # sentences
    loads: dict  # {name: what it is}
    summary: dict = field(default_factory=dict)  # {(load, ranks): {contender: Figures}}
    failures: dict = field(default_factory=dict)  # {(load, ranks): {contender: [last line of an error, ...]}}
    problems: list = field(default_factory=list)  # losses that are not Zeroth's

    @property
    def settings(self):
        return list(dict.fromkeys([*self.summary, *self.failures]))


def _benchmarks_own():
    """bench/peers/table.py, which makes figures of runs and needs no PyTorch."""
    path = pathlib.Path(__file__).resolve().parents[2] / "bench/peers/table.py"
    spec = importlib.util.spec_from_file_location("peers_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own = _benchmarks_own()


def contender(system, variant):
    """How the file's summary calls it."""
    return own.label({"system": system, "variant": variant})


def read_peers(path, precision):
    document = read_document(path)
    document.one_of("benchmark", ("peers",))
    document.one_of("precision", (precision,))
    loads = document.record("loads")
    described = {name: description(name, loads.record(name)) for name in loads.fields}
    peers = Peers(document.count("rounds", 1), _facts(document), described)
    runs = [_run(record, loads) for record in document.records("runs")]
    if not runs:
        document.fail("runs is empty: nothing ran")
    _check_summary(document, runs)
    for entry in own.summarise(runs):
        peers.summary.setdefault((entry["load"], entry["ranks"]), {})[entry["contender"]] = Figures(
            entry["tokens_per_s"], tuple(entry["tokens_per_s_range"]), entry["peak_bytes_per_rank"],
            entry["zeroth3_is_times_as_fast"], entry["rounds"], entry["final_loss"])
    for record in document.records("failures"):
        setting = record.one_of("load", tuple(loads.fields)), record.count("ranks", 1)
        name = contender(record.text("system"), record.text("variant"))
        lines = record.text("error").strip().splitlines() or ["no message"]
        peers.failures.setdefault(setting, {}).setdefault(name, []).append(lines[-1].strip())
    peers.problems = own.wrong_losses(runs, own.LOSS_BOUNDS[precision])
    return peers


def _run(record, loads):
    """The fields that figures are made of, each of them checked."""
    losses, peaks = record.list("losses"), record.list("peak_bytes")
    for key, values in (("losses", losses), ("peak_bytes", peaks)):
        if not values or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            record.fail(f"{key} must be a list of one or more numbers")
    if min(peaks) <= 0:
        record.fail(f"peak_bytes has {min(peaks)}; a peak is above 0")
    return {"load": record.one_of("load", tuple(loads.fields)), "ranks": record.count("ranks", 1),
            "round": record.count("round"), "system": record.text("system"), "variant": record.text("variant"),
            "tokens_per_s": record.number("tokens_per_s", above=0), "losses": losses, "peak_bytes": peaks}


def _check_summary(document, runs):
    """What the file says of its runs is what its runs say."""
    told = document.records("summary")
    made = {(entry["load"], entry["ranks"], entry["contender"]): entry for entry in own.summarise(runs)}
    if len(told) != len(made):
        document.fail(f"summary has {len(told)} entries, its runs make {len(made)}")
    for record in told:
        entry = made.get((record.text("load"), record.count("ranks"), record.text("contender")))
        if entry is None:
            record.fail("contender has no runs")
        for key, value in entry.items():
            if record.fields.get(key) != value and value == value:  # a loss may be no number
                record.fail(f"{key} is {record.fields.get(key)}, its runs make {value}")


def _facts(document):
    machine = document.record("machine")
    versions = document.record("versions")
    told = ", ".join(f"{name} {versions.text(name)}" for name in sorted(versions.fields))
    memory = re.sub(r"^(\d+) kB$", lambda found: f"{int(found[1]) / 2**20:.0f} GiB", machine.text("memory"))
    return [f"{machine.text('processor')} ({machine.text('instructions')}), {machine.count('cores', 1)} cores, {memory}, "
            f"{machine.text('system')}",
            f"Zeroth {document.text('zeroth')}, products by {document.text('math')}" + (f"; {told}" if told else "")]
