#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT on two ranks by Muon: by Zeroth at stage 1, by torch.optim.Muon under DDP, and by DeepSpeed at
stage 1, in turns. Then times updates of its matrices: bench_muon's, and those of owners.py, a Muon with owners and
all-to-alls in PyTorch.

    .venv/bin/python bench/peers/muon.py --out muon.json

bench/README.md explains the ratios and their aims. Exit status: 1 if a loss of DDP is not Zeroth's. Failures are
recorded with their errors.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import launch
import muon_table
import turns
from kept import text_of
from loads import LOADS, PRECISIONS, VARIANTS, stage_file
from run import DEFAULT_TEXT, REPOSITORY, commit, concatenate, machine, positive, words_of

RANKS = 2
PEERS = (muon_table.DDP, muon_table.DEEPSPEED)
UPDATES = 4  # updates of a turn; the first one warms pages and caches


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=words_of(("L1", "L2")), default=["L1"], help="of L1, L2 [L1]")
    parser.add_argument("--precisions", type=words_of(PRECISIONS), default=["bf16"], help="[bf16]")
    parser.add_argument("--peers", type=words_of(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)} [both]")
    parser.add_argument("--variants", type=words_of(VARIANTS), default=list(VARIANTS[:2]), help="of the peers [default,tuned]")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--steps", type=positive, help="measured per turn [3 of L1, 8 of L2]")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--bench-muon", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_muon")
    parser.add_argument("--limit", type=positive, default=300, help="seconds that a turn may take [300]")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args(words)


class Benchmark:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        data = folder / "data.txt"
        concatenate(options.data, data)
        self.zeroth = launch.Zeroth(options.train_gpt.resolve(), data, folder, options.limit)
        self.peers = launch.Peers("fork", data, folder, options.limit)
        self.record = {"benchmark": "muon", "machine": machine(), "zeroth": commit(), "versions": {}, "rounds": options.rounds,
                       "ranks": RANKS, "loads": {name: dataclasses.asdict(self.load(name)) for name in options.loads},
                       "loss_bound": muon_table.LOSS_BOUND, "runs": [], "updates": [], "failures": [], "summary": []}
        self.turns = {muon_table.BASE: self.zeroth_turn}
        self.turns |= {f"{peer} {variant}": self.peer_turn(peer, variant) for peer in options.peers for variant in options.variants}

    def load(self, name):
        return dataclasses.replace(LOADS[name], steps=self.options.steps or LOADS[name].steps)

    def zeroth_turn(self, _, load, precision):
        return self.zeroth.turn_of(stage_file(1, load, precision, optimizer="Muon"), load, RANKS, precision, "threads")

    def peer_turn(self, peer, variant):
        def turn(name, load, precision):
            figures = self.peers.turn(peer, variant, name, load, RANKS, precision)
            self.record["versions"] |= figures.pop("versions")
            return figures
        return turn

    def update_turn(self, name):
        """Milliseconds of an update on two ranks."""
        if name == muon_table.UPDATE:
            done = subprocess.run([self.options.bench_muon, "--update", str(RANKS)], capture_output=True, text=True, check=False,
                                  timeout=self.options.limit)
            if done.returncode:
                raise launch.Failure(done.stderr.strip())
            return json.loads(done.stdout)["ms"]
        out = self.folder / "update"
        self.peers.ranks("muon_rank", ["--updates", str(UPDATES), "--out", str(out)], RANKS, self.folder / "log")
        spent = json.loads(pathlib.Path(f"{out}.0.json").read_text(encoding="utf-8"))["update_ms"]
        return statistics.median(spent[1:])

    def take_update(self, name, number):
        key = {"contender": name, "round": number}
        try:
            self.record["updates"].append({**key, "update_ms": self.update_turn(name)})
        except (launch.Failure, subprocess.TimeoutExpired) as error:
            self.record["failures"].append({**key, "error": str(error)})
            print(f"round {number}: {name} did not run:\n{error}", file=sys.stderr)

    def run(self):
        for load_name in self.options.loads:
            load = self.load(load_name)
            self.zeroth.save_initial(load, self.folder / "initial")
            for precision in self.options.precisions:
                for number in range(self.options.rounds):
                    names = list(self.turns)
                    for name in names[number % len(names):] + names[:number % len(names)]:
                        turns.take(self.record, self.turns[name], name, load_name, load, precision, number, RANKS)
                self.write()
        for number in range(self.options.rounds):
            names = [muon_table.UPDATE, muon_table.OWNERS]
            for name in names[::1 if number % 2 == 0 else -1]:
                self.take_update(name, number)
        self.write()

    def write(self):
        self.record["summary"] = muon_table.summarise(self.record["runs"], self.record["updates"])
        self.options.out.write_text(text_of(self.record), encoding="utf-8")


def main():
    options = arguments()
    for option, program in (("--train-gpt", options.train_gpt), ("--bench-muon", options.bench_muon)):
        if not program.is_file():
            sys.exit(f"muon.py: {option} {program}: no such program; cmake --preset release && "
                     "cmake --build --preset release --target train_gpt bench_muon")
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # compiling DeepSpeed's Muon would take minutes
    with tempfile.TemporaryDirectory() as name:
        benchmark = Benchmark(options, pathlib.Path(name))
        benchmark.run()
    for line in benchmark.record["summary"]:
        print(muon_table.verdict(line))
    problems = muon_table.wrong_losses(benchmark.record["runs"])
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
