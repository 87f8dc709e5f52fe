#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times an AdamW update of Zeroth, DeepSpeed's CPUAdam and PyTorch's fused AdamW on the same number of fp32 elements,
in turns, on one thread.

    .venv/bin/python bench/peers/adamw.py --out adamw.json

Each round takes the median of a few updates of each. A ratio is a peer's time over Zeroth's in the same round: above 1
Zeroth is faster. Prints and writes the medians.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from kept import text_of
from run import positive

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BYTES_PER_ELEMENT = 28  # parameter, m and v read and written, gradient read
SETTINGS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
UPDATES_PER_ROUND = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=positive, default=64, help="of elements, each 2^20 [64]")
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--bench-adamw", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_adamw")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="JSON file to write")
    return parser.parse_args()


def zeroth(options):
    """Seconds of one update, from the program that compares it with memory."""
    done = subprocess.run([options.bench_adamw, str(options.millions), str(UPDATES_PER_ROUND), "fp32"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"adamw.py: {options.bench_adamw} ended with {done.returncode}:\n{done.stderr}")
    rate = json.loads(done.stdout)["gb_per_s"]
    return (options.millions << 20) * BYTES_PER_ELEMENT / (rate * 1e9)


def peer(make, millions):
    """Returns a function that times one update of `make`'s optimizer."""
    import torch
    parameter = torch.full((millions << 20,), 0.01, requires_grad=True)
    parameter.grad = torch.full_like(parameter, 0.01)
    optimizer = make([parameter])
    optimizer.step()  # creates m and v

    def update():
        began = time.perf_counter()
        optimizer.step()
        return time.perf_counter() - began

    return lambda: statistics.median(update() for _ in range(UPDATES_PER_ROUND))


def peers(millions):
    import deepspeed
    import torch
    torch.set_num_threads(1)
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    versions = {"torch": torch.__version__, "deepspeed": deepspeed.__version__}
    return versions, {
        "DeepSpeed CPUAdam": peer(lambda p: DeepSpeedCPUAdam(p, adamw_mode=True, **SETTINGS), millions),
        "PyTorch fused AdamW": peer(lambda p: torch.optim.AdamW(p, fused=True, **SETTINGS), millions)}


def main():
    os.environ |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}  # the peers read it at import
    options = arguments()
    versions, others = peers(options.millions)
    contenders = {"Zeroth": lambda: zeroth(options), **others}
    seconds = {name: [] for name in contenders}
    for number in range(options.rounds):
        names = list(contenders)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            seconds[name].append(contenders[name]())
    elements = options.millions << 20
    summary = [{"contender": name, "gb_per_s": elements * BYTES_PER_ELEMENT / statistics.median(times) * 1e-9,
                "time_over_zeroth": statistics.median(t / own for t, own in zip(times, seconds["Zeroth"]))}
               for name, times in seconds.items()]
    record = {"benchmark": "adamw_peers", "elements": elements, "threads": 1, "rounds": options.rounds,
              "versions": versions, "seconds": seconds, "summary": summary}
    options.out.write_text(text_of(record), encoding="utf-8")
    for each in summary:
        print(f"{each['contender']:<20} {each['gb_per_s']:6.1f} GB/s   time over Zeroth's {each['time_over_zeroth']:.2f}")


if __name__ == "__main__":
    main()
