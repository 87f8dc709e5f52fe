#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the LibTorch adapter with Python's DDP and FSDP2: the same GPT, the same libtorch, one thread per rank, in
turns.

    .venv/bin/python bench/peers/torch_modules.py --bench build/release/bin/bench_torch --out torch.json

For each load and number of ranks, prints tokens per second of bench_torch at stage 0 over DDP's, and at stage 3 over
FSDP2's, where a peer runs with its defaults and as its documentation advises, and the faster one counts. Also prints
the largest difference of a loss; all start from the same weights. Exit status: 1 if it is above the bound.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

import launch
from kept import text_of
from loads import LOADS, tokens_per_second
from run import DEFAULT_TEXT, REPOSITORY, commit, concatenate, machine, numbers, positive, words_of

PAIRS = {0: "ddp", 3: "fsdp2"}  # {stage: the equivalent peer}
LOSS_BOUND = 1e-4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=words_of(("L1", "L2")), default=["L1"], help="of L1, L2 [L1]")
    parser.add_argument("--ranks", type=numbers, default=[2, 4], help="[2,4]")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--steps", type=positive, help="measured per turn [3 of L1, 8 of L2]")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--bench", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_torch")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--transport", choices=("mpi", "tcp"), default="tcp", help="of bench_torch's ranks [tcp, as torchrun starts the peers]")
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth", help="for tcp")
    parser.add_argument("--limit", type=positive, default=900, help="seconds that a turn may take [900]")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file to write")
    return parser.parse_args()


def turn_of_zeroth(options, folder, stage, name, load, world):
    log = folder / "log"
    start = [*launch.mpirun(), "-n", world] if options.transport == "mpi" else [
        options.zeroth, "run", "--transport", "tcp", "--ranks", world, "--"]
    launch.run_program([*start, options.bench, "--train", load.steps, "--warmup",
                        load.warmup, "--stage", stage, "--load", name, "--initial", folder / "initial", "--data", folder / "data.txt"], log, options.limit)
    return next(json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{"))


def measure(options, folder, peers, name, load, world):
    turns = {}
    for round_number in range(options.rounds):
        contenders = [(stage, None) for stage in PAIRS] + [(stage, variant) for stage in PAIRS for variant in ("default", "tuned")]
        for stage, variant in contenders if round_number % 2 == 0 else reversed(contenders):
            if variant is None:
                turn = turn_of_zeroth(options, folder, stage, name, load, world)
            else:
                turn = peers.turn(PAIRS[stage], variant, name, load, world, "fp32")
            turn["tokens_per_s"] = tokens_per_second(turn["step_ms"], load, world)
            turns.setdefault((stage, variant), []).append(turn)
    speed = {key: statistics.median(turn["tokens_per_s"] for turn in of_key) for key, of_key in turns.items()}
    losses = {key: of_key[0]["losses"] for key, of_key in turns.items()}
    result = {"load": name, "ranks": world, "steps": load.steps}
    for stage, peer in PAIRS.items():
        best = max(("default", "tuned"), key=lambda variant: speed[stage, variant])
        difference = max(abs(a - b) / b for a, b in zip(losses[stage, None], losses[stage, best]))
        result[f"stage {stage}"] = {
            "tokens_per_s": speed[stage, None], "peer": peer, "variant": best, "peer_tokens_per_s": speed[stage, best],
            "ratio": speed[stage, None] / speed[stage, best], "largest_relative_loss_difference": difference,
            "peak_bytes": turns[stage, None][0]["peak_bytes"], "planned_bytes": turns[stage, None][0]["planned_bytes"],
            "peer_peak_bytes": max(turns[stage, best][0]["peak_bytes"])}
    return result


def main():
    options = arguments()
    results = []
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        concatenate(options.data, folder / "data.txt")
        zeroth = launch.Zeroth(options.train_gpt.resolve(), folder / "data.txt", folder, options.limit)
        peers = launch.Peers("torchrun", folder / "data.txt", folder, options.limit)
        for name in options.loads:
            load = LOADS[name] if options.steps is None else dataclasses.replace(LOADS[name], steps=options.steps)
            zeroth.save_initial(load, folder / "initial")
            for world in options.ranks:
                results.append(measure(options, folder, peers, name, load, world))
                print(json.dumps(results[-1]), flush=True)
    record = {"benchmark": "torch_modules", "machine": machine(), "zeroth": commit(), "transport": options.transport,
              "results": results}
    options.out.write_text(text_of(record), encoding="utf-8")
    apart = [result for result in results for stage in PAIRS
             if result[f"stage {stage}"]["largest_relative_loss_difference"] > LOSS_BOUND]
    if apart:
        sys.exit(f"losses are apart by more than {LOSS_BOUND}")


if __name__ == "__main__":
    main()
