#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and loads a checkpoint of the same model with Zeroth, PyTorch's DCP and DeepSpeed, in turns.

    .venv/bin/python bench/peers/checkpoint.py --folder FOLDER --out checkpoints.json

85 million parameters in fp32 with AdamW, stage 3 or its equivalent, four ranks, and two ranks that load what four have
saved. Every figure is relative to the time in which the same processes write, read or copy the same number of bytes
without the system's cache, in the same turn. FOLDER selects the disk; files written there are removed. Failures are
recorded with their errors.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import launch
from checkpoint_table import NAMES, cells, summarise
from kept import text_of
from run import REPOSITORY, commit, machine, positive, words_of

PEERS = ("dcp", "deepspeed")
SYSTEMS = tuple(NAMES)
# {bench_checkpoint's figure: (its name here, its yardstick)}
ZEROTH = {"save": ("save", "raw_write"), "save() itself": ("async_save_blocks", "raw_write"), "restore": ("load", "raw_read"),
          "restore at another number of ranks": ("load_other", "raw_read_other"),
          "steps, lost to a save": ("steps_lost", "memcpy")}


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="to write to, 4 GB")
    parser.add_argument("--systems", type=words_of(SYSTEMS), default=list(SYSTEMS), help=f"of {', '.join(SYSTEMS)} [all]")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--limit", type=positive, default=180, help="seconds that a turn may take [180]")
    parser.add_argument("--bench-checkpoint", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_checkpoint")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file to write")
    return parser.parse_args(words)


def zeroth_figures(lines):
    figures = {}
    for line in map(json.loads, lines):
        if line["what"] in ZEROTH:
            name, yardstick = ZEROTH[line["what"]]
            figures |= {name: line["seconds"], yardstick: line[f"{yardstick.removesuffix('_other')}_seconds"]}
        elif line["what"].startswith("memory"):
            figures["async_save_bytes"] = line["most"]
    return figures


class Benchmark:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.log = scratch / "log"
        self.peers = launch.Peers("fork", None, scratch, options.limit)
        self.record = {"benchmark": "checkpoint_peers", "machine": machine(), "zeroth": commit(), "versions": versions(),
                       "rounds": options.rounds, "runs": [], "failures": [], "summary": []}

    def run(self):
        for number in range(self.options.rounds):
            shift = number % len(self.options.systems)
            for system in self.options.systems[shift:] + self.options.systems[:shift]:
                self.turn(system, number)
            self.record["summary"] = summarise(self.record["runs"])
            self.options.out.write_text(text_of(self.record), encoding="utf-8")

    def turn(self, system, number):
        began, figures = time.monotonic(), {}
        folder = self.options.folder / "turn"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            for part in (self.zeroth,) if system == "zeroth" else (self.peer_saves, self.peer_loads):
                part(system, folder, figures)
        except launch.Failure as error:
            self.record["failures"].append({"system": system, "round": number, "error": str(error)})
            print(f"round {number}, {NAMES[system]}: did not run to its end:\n{error}", file=sys.stderr)
        finally:
            shutil.rmtree(folder)
        if figures:
            self.record["runs"].append({"system": system, "round": number, **figures})
        print(f"round {number}, {NAMES[system]}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def zeroth(self, _, folder, figures):
        launch.run_program([self.options.bench_checkpoint, folder, 1], self.log, self.options.limit)
        lines = self.log.read_text(encoding="utf-8").splitlines()
        figures |= zeroth_figures(line for line in lines if line.startswith("{"))

    def peer_saves(self, peer, folder, figures):
        figures |= self.peer(peer, "save", folder, 4)

    def peer_loads(self, peer, folder, figures):
        other = self.peer(peer, "load", folder, 2)
        figures |= {"load_other": other["load"], "raw_read_other": other["raw_read"]}

    def peer(self, peer, what, folder, world):
        out = self.scratch / "rank"
        self.peers.ranks("save", ["--peer", peer, "--what", what, "--folder", str(folder), "--out", str(out)], world, self.log)
        return json.loads(out.read_text(encoding="utf-8"))


def versions():
    import importlib.metadata
    return {name: importlib.metadata.version(name) for name in ("torch", "deepspeed")}


def main():
    options = arguments()
    if not options.bench_checkpoint.is_file():
        sys.exit(f"checkpoint.py: --bench-checkpoint {options.bench_checkpoint}: no such program; cmake --preset release && "
                 "cmake --build --preset release --target bench_checkpoint")
    options.bench_checkpoint = options.bench_checkpoint.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        benchmark = Benchmark(options, pathlib.Path(scratch))
        benchmark.run()
    header, rows = cells(benchmark.record["summary"])
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")
    return 1 if benchmark.record["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
