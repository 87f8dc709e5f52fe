#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT with Zeroth and with its peers, in turns, and compares speed, memory and losses.

    python3 -m venv .venv && .venv/bin/pip install -r bench/peers/requirements.txt
    .venv/bin/python bench/peers/run.py --train-gpt build/release/bin/train_gpt --out peers.json

In fp32, then in bf16. Same initial weights, data, threads (one per rank) and optimizer; in every round each contender
runs once, in its own process. The file has every run and the medians; bench/README.md explains them. Exit status: 1 if
a loss is not that of Zeroth's stage 3. Failures are recorded with their errors.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

import launch
import table
from kept import text_of
from loads import CLIPPING, LOADS, OPTIMIZER, PRECISIONS, VARIANTS, stage_file, tokens_per_second

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PEERS = ("ddp", "fsdp2", "deepspeed1", "deepspeed2", "deepspeed3")
WITH_LEAN = ("fsdp2", "deepspeed3")  # contenders whose memory is compared
DEFAULT_TEXT = pathlib.Path("/usr/include/eigen3/Eigen")


def words_of(allowed):
    def parse(text):
        words = [word for word in text.split(",") if word]
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(allowed)}")
        return words
    return parse


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def numbers(text):
    return [positive(word) for word in text.split(",")]


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=words_of(LOADS), default=list(LOADS), help=f"of {', '.join(LOADS)} [all]")
    parser.add_argument("--precisions", type=words_of(PRECISIONS), default=list(PRECISIONS),
                        help=f"of {', '.join(PRECISIONS)} [both]")
    parser.add_argument("--ranks", type=numbers, default=[2, 4], help="[2,4]; a load may have fewer")
    parser.add_argument("--peers", type=words_of(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)} [all]")
    parser.add_argument("--variants", type=words_of(VARIANTS), default=list(VARIANTS), help="of the peers [all]")
    parser.add_argument("--stages", type=words_of("0123"), default=list("0123"), help="of Zeroth; 3 is always run [all]")
    parser.add_argument("--mpi", type=words_of("0123"), default=["3"], help="of Zeroth's stages, also under mpirun [3]")
    parser.add_argument("--nvme", type=pathlib.Path, help="folder: Zeroth 3 and DeepSpeed 3 (lean) also with the "
                        "optimizer's states in files there, as variants of this name (DeepSpeed needs libaio)")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--steps", type=positive, help="measured per turn [3 of L1, 8 of L2, 2 of state]")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--launcher", choices=("fork", "torchrun"), default="fork", help="of the peers' ranks [fork]")
    parser.add_argument("--limit", type=positive, default=900, help="seconds that a turn may take [900]")
    parser.add_argument("--out", type=pathlib.Path, required=True,
                        help="JSON file to write, or the folder for one that has the name of the processor's maker")
    return parser.parse_args(words)


@dataclasses.dataclass(frozen=True)
class Contender:
    system: str  # zeroth0 to zeroth3, or a peer
    variant: str  # threads, mpi or nvme, or a peer's variant


def contenders(options):
    stages = sorted({*options.stages, "3"})
    found = [Contender(f"zeroth{stage}", "threads") for stage in stages]
    found += [Contender(f"zeroth{stage}", "mpi") for stage in options.mpi]
    found += [Contender(peer, variant) for peer in options.peers for variant in options.variants
              if variant != "lean" or peer in WITH_LEAN]
    if options.nvme:
        found += [Contender(system, "nvme") for system in ("zeroth3", "deepspeed3")]
    return found


def concatenate(source, target):
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if path.is_file())
    text = b"".join(path.read_bytes() for path in files)
    if not text:
        sys.exit(f"run.py: --data {source}: no text")
    target.write_bytes(text)
    return len(text)


MAKERS = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}  # other makers keep the names that they report
# Matrix products use the best of these instruction sets that a processor has.
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 with bf16", "avx512f": "AVX-512", "avx2": "AVX2"}


def machine():
    def first(path, key):
        return next((line.split(":", 1)[1].strip() for line in open(path) if line.startswith(key)), "unknown")
    flags, vendor = first("/proc/cpuinfo", "flags").split(), first("/proc/cpuinfo", "vendor_id")
    return {"processor": first("/proc/cpuinfo", "model name"), "maker": MAKERS.get(vendor, vendor),
            "instructions": next((name for flag, name in INSTRUCTIONS.items() if flag in flags), "unknown"),
            "cores": os.cpu_count(), "memory": first("/proc/meminfo", "MemTotal"), "system": platform.platform(),
            "load_average": os.getloadavg()}


def commit():
    shown = subprocess.run(["git", "-C", REPOSITORY, "describe", "--always", "--dirty"], capture_output=True, text=True,
                           check=False)
    return shown.stdout.strip() or "unknown"


def settings(options):
    names = [name for name in options.loads for ranks in options.ranks if ranks in LOADS[name].ranks]
    for name in options.loads:
        if name not in names:
            sys.exit(f"run.py: --ranks: {name} runs on {' or '.join(map(str, LOADS[name].ranks))} ranks only")
    for name in options.loads:
        load = LOADS[name] if options.steps is None else dataclasses.replace(LOADS[name], steps=options.steps)
        for ranks in options.ranks:
            if ranks in load.ranks:
                yield name, load, ranks


class Benchmark:
    def __init__(self, options, folder):
        self.options = options
        data = folder / "data.txt"
        data_bytes = concatenate(options.data, data)
        self.folder = folder
        self.zeroth = launch.Zeroth(options.train_gpt.resolve(), data, folder, options.limit)
        self.peers = launch.Peers(options.launcher, data, folder, options.limit)
        self.record = {
            "benchmark": "peers", "machine": machine(), "zeroth": commit(), "versions": {}, "data_bytes": data_bytes,
            "math": dict.fromkeys(options.precisions, "nothing"), "launcher": options.launcher, "optimizer": OPTIMIZER,
            "clipping": CLIPPING,
            "loss_bounds": {precision: table.LOSS_BOUNDS[precision] for precision in options.precisions},
            "loads": {name: dataclasses.asdict(load) for name, load, _ in settings(options)},
            "stage_file": {precision: {name: json.loads(stage_file(3, load, precision))
                                       for name, load, _ in settings(options)} for precision in options.precisions},
            "rounds": options.rounds, "runs": [], "failures": [], "summary": []}

    def run(self):
        everyone = contenders(self.options)
        for name, load, ranks in settings(self.options):
            self.zeroth.save_initial(load, self.folder / "initial")
            for precision, number in itertools.product(self.options.precisions, range(self.options.rounds)):
                shift = number % len(everyone)
                for contender in everyone[shift:] + everyone[:shift]:
                    self.turn(contender, name, load, ranks, precision, number)
                self.write()

    def turn(self, contender, name, load, ranks, precision, number):
        key = {"precision": precision, "load": name, "ranks": ranks, "round": number, **dataclasses.asdict(contender)}
        where = f"{table.told((precision, name, ranks))}, round {number}: {table.label(key)}"
        began = time.monotonic()
        try:
            nvme = self.options.nvme if contender.variant == "nvme" else None
            if contender.system.startswith("zeroth"):
                figures = self.zeroth.turn(int(contender.system[-1]), load, ranks, precision, contender.variant, nvme)
                self.record["math"][precision] = figures.pop("math")
            else:
                figures = self.peers.turn(contender.system, contender.variant, name, load, ranks, precision, nvme)
        except launch.Failure as error:
            self.record["failures"].append({**key, "error": str(error)})
            print(f"{where} did not run:\n{error}", file=sys.stderr)
            return
        self.record["versions"].update(figures.pop("versions", {}))
        speed = tokens_per_second(figures["step_ms"], load, ranks)
        self.record["runs"].append({**key, "tokens_per_s": speed, **figures})
        print(f"{where}: {speed:,.0f} tokens/s ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)

    def write(self):
        order = [table.label(dataclasses.asdict(contender)) for contender in contenders(self.options)]
        loads = list(LOADS)
        self.record["summary"] = sorted(table.summarise(self.record["runs"]), key=lambda s: (
            PRECISIONS.index(s["precision"]), loads.index(s["load"]), s["ranks"], order.index(s["contender"])))
        partial = self.options.out.with_name(self.options.out.name + ".partial")
        partial.write_text(text_of(self.record), encoding="utf-8")
        partial.replace(self.options.out)


def main():
    options = arguments()
    if not options.train_gpt.is_file():
        sys.exit(f"run.py: --train-gpt {options.train_gpt}: no such program; cmake --preset release && "
                 "cmake --build --preset release")
    if options.mpi and not launch.mpirun():
        sys.exit("run.py: there is no mpirun; give --mpi ''")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exits normally, which ends the ranks and removes the files
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if a shell started this in the background
    began = time.monotonic()
    here = machine()
    print(f"on {here['processor']} with {here['instructions']}, {here['cores']} cores", file=sys.stderr)
    if options.out.is_dir():
        options.out /= table.file_of(here["maker"])
    with tempfile.TemporaryDirectory() as name:
        benchmark = Benchmark(options, pathlib.Path(name))
        benchmark.run()
    print(table.table(benchmark.record["summary"]), end="")
    for failure in benchmark.record["failures"]:
        print(f"did not run: {table.told((failure['precision'], failure['load'], failure['ranks']))}, "
              f"round {failure['round']}, {table.label(failure)}: {failure['error'].splitlines()[-1]}")
    problems = table.wrong_losses(benchmark.record["runs"])
    for problem in problems:
        print(f"FAILED: {problem}")
    for precision in dict.fromkeys(run["precision"] for run in benchmark.record["runs"]) if not problems else ():
        print(table.agreement(precision))
    print(f"{options.out}: {len(benchmark.record['runs'])} runs in {time.monotonic() - began:,.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
