#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT in pipelines of Zeroth and of torch.distributed.pipelining, in turns.

    .venv/bin/python bench/peers/pipeline.py --out pipeline.json

Two stages of one rank each, with consecutive micro-batches of the loads and an untied head. Also runs Zeroth without a
pipeline on the same ranks and on one of them, and stages 1 and 3 among two ranks of each stage. bench/README.md
explains the ratios and their aims. Exit status: 1 if a loss is not that of Zeroth's 1F1B. Failures are recorded with
their errors.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

import launch
import turns
from kept import text_of
from loads import LOADS, PRECISIONS, VARIANTS, stage_file
from run import DEFAULT_TEXT, REPOSITORY, commit, concatenate, machine, positive, words_of
from simulated import Simulator
from table import LOSS_BOUNDS

TORCH = ("gpipe", "1f1b", "interleaved_1f1b", "zbv")
BASE = "zeroth 1f1b"
ALONE = "zeroth on one rank"


@dataclasses.dataclass(frozen=True)
class Zeroth:
    """Settings of a stage file: `stages` pipeline stages among `ranks` ranks. The ranks of a stage shard at stage
    `zero`."""
    schedule: str
    stages: int = 2
    ranks: int = 2
    zero: int = 0
    chunks: int = 1

    def file(self, load, precision, micro_steps):
        text = json.loads(stage_file(self.zero, load, precision))
        text["gradient_accumulation_steps"] = micro_steps * self.stages // self.ranks
        text["zeroth"] = {"mesh": {"pipeline": self.stages}}
        if self.stages > 1:
            text["zeroth"]["pipeline"] = {"schedule": self.schedule} | ({"chunks": self.chunks} if self.chunks > 1 else {})
        return json.dumps(text)


ZEROTH = {"zeroth gpipe": Zeroth("gpipe"), BASE: Zeroth("1f1b"),
          "zeroth interleaved_1f1b": Zeroth("interleaved_1f1b", chunks=2), "zeroth zb_h1": Zeroth("zb_h1"),
          "zeroth without": Zeroth("", stages=1), ALONE: Zeroth("", stages=1, ranks=1), "zeroth 1f1b, ZeRO 1": Zeroth("1f1b", ranks=4, zero=1),
          "zeroth 1f1b, ZeRO 3": Zeroth("1f1b", ranks=4, zero=3)}
# (ratio, numerator, denominator); "torch" is torch's fastest or leanest contender.
RATIOS = (("tokens/s over torch's fastest", BASE, "torch"), ("tokens/s over no pipeline", BASE, "zeroth without"),
          ("ZeRO 3 over ZeRO 1 in 1F1B", "zeroth 1f1b, ZeRO 3", "zeroth 1f1b, ZeRO 1"))


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=words_of(("L1", "L2")), default=["L1", "L2"], help="of L1, L2 [both]")
    parser.add_argument("--precisions", type=words_of(PRECISIONS), default=list(PRECISIONS), help="[both]")
    parser.add_argument("--variants", type=words_of(VARIANTS), default=list(VARIANTS), help="of torch's [all]")
    parser.add_argument("--schedules", type=words_of(TORCH), default=list(TORCH), help="of torch's [all]")
    parser.add_argument("--micro-steps", type=positive, default=8)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--steps", type=positive, help="measured per turn [3 of L1, 8 of L2]")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth", help="that simulates")
    parser.add_argument("--limit", type=positive, default=600, help="seconds that a turn may take [600]")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args(words)


class Benchmark:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        concatenate(options.data, folder / "data.txt")
        self.zeroth = launch.Zeroth(options.train_gpt.resolve(), folder / "data.txt", folder, options.limit)
        self.peers = launch.Peers("fork", folder / "data.txt", folder, options.limit)
        self.record = {"benchmark": "pipeline", "machine": machine(), "zeroth": commit(), "micro_steps": options.micro_steps,
                       "runs": [], "failures": [], "summary": []}
        self.turns = {name: self.zeroth_turn(of) for name, of in ZEROTH.items()}
        self.turns |= {f"torch {schedule} {variant}": self.torch_turn(schedule, variant)
                       for schedule in options.schedules for variant in options.variants}

    def zeroth_turn(self, of):
        def turn(_, load, precision):
            text = of.file(load, precision, self.options.micro_steps)
            return self.zeroth.turn_of(text, load, of.ranks, precision, "threads")
        return turn

    def torch_turn(self, schedule, variant):
        def turn(name, load, precision):
            words = ["--schedule", schedule, "--variant", variant, "--micro-steps", self.options.micro_steps]
            ranks = self.peers.records("pipeline_rank", words, name, load, 2, precision)
            self.record["versions"] = ranks[0]["versions"]
            return {"step_ms": ranks[0]["step_ms"], "losses": ranks[0]["losses"],
                    "peak_bytes": [rank["peak_bytes"] for rank in ranks]}
        return turn

    def run(self):
        names = list(self.turns)
        for load_name in self.options.loads:
            load = LOADS[load_name]
            load = dataclasses.replace(load, steps=self.options.steps or load.steps)
            self.zeroth.save_initial(load, self.folder / "initial", ["--untied-head"])
            for precision in self.options.precisions:
                for number in range(self.options.rounds):
                    for name in names[number % len(names):] + names[:number % len(names)]:
                        turns.take(self.record, self.turns[name], name, load_name, load, precision, number, self.options.micro_steps)
                self.record["summary"] += summarise(self.record["runs"], load_name, precision)
                self.record["summary"] += self.simulated(load_name, precision)
                self.options.out.write_text(text_of(self.record), encoding="utf-8")

    def simulated(self, load_name, precision):
        """The measured step of 1F1B over the simulated one, on a machine with the speed of one rank alone."""
        load, micro_steps = LOADS[load_name], self.options.micro_steps
        measured = {name: step_ms_of(self.record["runs"], name, load_name, precision) for name in (ALONE, BASE)}
        if None in measured.values():
            return []
        file_of = {name: ZEROTH[name].file(load, precision, micro_steps) for name in measured}
        simulator = Simulator(self.options.zeroth, self.folder)
        rate = simulator.rate(load, file_of[ALONE], measured[ALONE])
        simulated = simulator.step_ms(load, file_of[BASE], ZEROTH[BASE].ranks, rate)
        return [{"load": load_name, "precision": precision, "ratio": "step over the simulated one", "under": "zeroth simulate",
                 "value": measured[BASE] / simulated}]


def step_ms_of(runs, name, load_name, precision):
    """The contender's median step time over rounds; None if it never ran."""
    key = name, load_name, precision
    of = [statistics.median(run["step_ms"][LOADS[load_name].warmup:]) for run in runs
          if (run["contender"], run["load"], run["precision"]) == key]
    return statistics.median(of) if of else None


def summarise(runs, load_name, precision):
    """Records for one load in one precision: one for each contender, and one for each ratio."""
    setting = {"load": load_name, "precision": precision}
    by_name = {}
    for run in runs:
        if (run["load"], run["precision"]) == (load_name, precision):
            by_name.setdefault(run["contender"], []).append(run)
    speed = {name: statistics.median(run["tokens_per_s"] for run in of) for name, of in by_name.items()}
    memory = {name: statistics.median(max(run["peak_bytes"]) for run in of) for name, of in by_name.items()}
    torch = [name for name in by_name if name.startswith("torch")]
    summary = [{**setting, "contender": name, "tokens_per_s": speed[name], "peak_bytes": memory[name]} for name in by_name]
    for what, over, under in RATIOS:
        under = max(torch, key=speed.get, default="") if under == "torch" else under
        if over in speed and under in speed:
            summary.append({**setting, "ratio": what, "under": under, "value": speed[over] / speed[under]})
    if torch and BASE in memory:
        leanest = min(torch, key=memory.get)
        summary.append({**setting, "ratio": "memory over torch's leanest", "under": leanest,
                        "value": memory[BASE] / memory[leanest]})
    return summary


def wrong_losses(runs):
    base = {(run["load"], run["precision"]): run["losses"] for run in runs if run["contender"] == BASE}
    for run in runs:
        right = base.get((run["load"], run["precision"]), [])
        far = [step for step, (mine, theirs) in enumerate(zip(run["losses"], right), 1)
               if not abs(mine - theirs) <= LOSS_BOUNDS[run["precision"]] * abs(theirs)]
        if far:
            yield f"{run['load']}, {run['precision']}, {run['contender']}: another loss in step {far[0]}"


def lines_of(summary):
    for line in summary:
        where = f"{line['load']}, {line['precision']}"
        if "ratio" in line:
            yield f"{where}: {line['ratio']}: {line['value']:.2f} ({line['under']})"
        else:
            yield f"{where}: {line['contender']}: {line['tokens_per_s']:,.0f} tokens/s, {line['peak_bytes'] / 2**20:,.0f} MiB per rank"


def main():
    options = arguments()
    for option, program in (("--train-gpt", options.train_gpt), ("--zeroth", options.zeroth)):
        if not program.is_file():
            sys.exit(f"pipeline.py: {option} {program}: no such program; cmake --preset release && cmake --build --preset release")
    with tempfile.TemporaryDirectory() as name:
        benchmark = Benchmark(options, pathlib.Path(name))
        benchmark.run()
    print("\n".join(lines_of(benchmark.record["summary"])))
    problems = list(wrong_losses(benchmark.record["runs"]))
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
