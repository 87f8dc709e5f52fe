#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT on two tensor ranks of Zeroth, of torch's DTensor and of Megatron-Core's layers, in turns.

    .venv/bin/python bench/peers/tensor.py --out tensor.json

Both ranks see each of a step's two micro-batches. Also runs Zeroth at stage 0 on the same two ranks, with one
micro-batch each; with --before PROGRAM also by a train_gpt without tensor ranks. Then runs bench_random's masks.
bench/README.md explains the ratios and their aims. Exit status: 1 if a loss is not that of Zeroth's tensor ranks.
Failures are recorded with their errors.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import launch
import table
import tensor_table
import turns
from kept import text_of
from loads import LOADS, PRECISIONS, VARIANTS, stage_file
from run import DEFAULT_TEXT, REPOSITORY, commit, concatenate, machine, positive, words_of

RANKS = 2
PEERS = {"dtensor": "dtensor", "dtensor_sequence": "dtensor sequence", "dtensor_whole": "dtensor whole",
         "dtensor_sequence_whole": "dtensor sequence whole", "megatron": "megatron", "megatron_whole": "megatron whole"}


def variants_of(peer):
    """Megatron-Core in bf16 has parameters in bf16, like the tuned variants, since it rejects autocast."""
    return VARIANTS[1:] if peer.startswith("megatron") else VARIANTS


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=words_of(("L1", "L2")), default=["L1", "L2"], help="of L1, L2 [both]")
    parser.add_argument("--precisions", type=words_of(PRECISIONS), default=list(PRECISIONS), help="[both]")
    parser.add_argument("--peers", type=words_of(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)} [all]")
    parser.add_argument("--variants", type=words_of(VARIANTS), default=list(VARIANTS), help="of the peers [all]")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--peer-rounds", type=positive, default=2, help="of --rounds, those in which peers have turns [2]")
    parser.add_argument("--steps", type=positive, help="measured per turn [3 of L1, 8 of L2]")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--before", type=pathlib.Path, help="train_gpt of before there were tensor ranks")
    parser.add_argument("--bench-random", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_random")
    parser.add_argument("--limit", type=positive, default=300, help="seconds that a turn may take [300]")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args(words)


def config(load, precision, tensor_ranks=1, sequence=False):
    """Text of a stage file whose step has the samples of two ranks."""
    text = json.loads(stage_file(0, load, precision))
    text["gradient_accumulation_steps"] = tensor_ranks
    if tensor_ranks > 1:
        text["zeroth"] = {"mesh": {"tensor": tensor_ranks}, "sequence_parallel": sequence}
    return json.dumps(text)


class Benchmark:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        data = folder / "data.txt"
        concatenate(options.data, data)
        self.zeroth = launch.Zeroth(options.train_gpt.resolve(), data, folder, options.limit)
        self.peers = launch.Peers("fork", data, folder, options.limit)
        self.record = {"benchmark": "tensor", "machine": machine(), "zeroth": commit(), "versions": {}, "rounds": options.rounds,
                       "peer_rounds": min(options.rounds, options.peer_rounds),
                       "ranks": RANKS, "loads": {name: dataclasses.asdict(self.load(name)) for name in options.loads},
                       "loss_bounds": {precision: table.LOSS_BOUNDS[precision] for precision in options.precisions},
                       "runs": [], "failures": [], "summary": [], "masks": []}
        self.turns = {tensor_table.BASE: self.zeroth_turn(self.zeroth, tensor_ranks=RANKS),
                      tensor_table.SEQUENCE: self.zeroth_turn(self.zeroth, tensor_ranks=RANKS, sequence=True),
                      tensor_table.OVER_MPI: self.zeroth_turn(self.zeroth, "mpi", tensor_ranks=RANKS),
                      tensor_table.WITHOUT: self.zeroth_turn(self.zeroth)}
        if options.before:
            before = launch.Zeroth(options.before.resolve(), data, folder, options.limit)
            self.turns[tensor_table.BEFORE] = self.zeroth_turn(before)
        self.turns |= {f"{PEERS[peer]} {variant}": self.peer_turn(peer, variant) for peer in options.peers
                       for variant in variants_of(peer) if variant in options.variants}

    def load(self, name):
        return dataclasses.replace(LOADS[name], steps=self.options.steps or LOADS[name].steps)

    def zeroth_turn(self, zeroth, launcher="threads", **parts):
        def turn(_, load, precision):
            return zeroth.turn_of(config(load, precision, **parts), load, RANKS, precision, launcher)
        return turn

    def peer_turn(self, peer, variant):
        def turn(name, load, precision):
            words = ["--peer", peer, "--variant", variant, "--micro-steps", RANKS]
            ranks = self.peers.records("tensor_rank", words, name, load, RANKS, precision)
            self.record["versions"] |= ranks[0]["versions"]
            return {"step_ms": ranks[0]["step_ms"], "losses": ranks[0]["losses"],
                    "peak_bytes": [rank["peak_bytes"] for rank in ranks]}
        return turn

    def run(self):
        for load_name in self.options.loads:
            load = self.load(load_name)
            self.zeroth.save_initial(load, self.folder / "initial")
            for precision in self.options.precisions:
                for number in range(self.options.rounds):
                    names = [name for name in self.turns if number < self.options.peer_rounds or name.startswith(tensor_table.BASE)]
                    for name in names[number % len(names):] + names[:number % len(names)]:
                        turns.take(self.record, self.turns[name], name, load_name, load, precision, number, RANKS)
                self.write()
        self.record["masks"] = masks(self.options.bench_random)
        self.write()

    def write(self):
        self.record["summary"] = tensor_table.summarise(self.record["runs"])
        self.options.out.write_text(text_of(self.record), encoding="utf-8")


def masks(program):
    """The lines of bench_random about masks."""
    done = subprocess.run([program, "4096", "7"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"tensor.py: {program} ended with {done.returncode}:\n{done.stderr}")
    return [line for line in map(json.loads, done.stdout.splitlines()) if line["case"].startswith("keep")]


def as_text(header, rows):
    return "\n".join("  ".join(cell or "-" for cell in row) for row in (header, *rows))


def main():
    options = arguments()
    for option, program in (("--train-gpt", options.train_gpt), ("--before", options.before), ("--bench-random", options.bench_random)):
        if program is not None and not program.is_file():
            sys.exit(f"tensor.py: {option} {program}: no such program; cmake --preset release && cmake --build --preset release")
    if not launch.mpirun():
        sys.exit("tensor.py: there is no mpirun, under which one contender runs")
    with tempfile.TemporaryDirectory() as name:
        benchmark = Benchmark(options, pathlib.Path(name))
        benchmark.run()
    record = benchmark.record
    for figure in (tensor_table.SPEED, tensor_table.MEMORY):
        print(as_text(*tensor_table.cells(record["summary"], figure)), end="\n\n")
    print(as_text(*tensor_table.aims(record["summary"], record["masks"])))
    problems = tensor_table.wrong_losses(record["runs"], record["loss_bounds"])
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
