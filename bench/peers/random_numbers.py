#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares masks and uniform numbers of zeroth::Random with those of PyTorch's CPU generator, in turns, on one thread.

    .venv/bin/python bench/peers/random_numbers.py

A ratio is the values per second of Zeroth, by the best instruction set of this machine, over those of PyTorch in the same round:
keep() over bernoulli_() of bool, uniform() over uniform_() of fp32. Prints the medians as a line of JSON.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from run import positive

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CALLS = 1024


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=positive, default=4096, help="of one call [4096]")
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--bench-random", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_random")
    return parser.parse_args()


def zeroth(options):
    done = subprocess.run([options.bench_random, str(options.values), "3"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"random_numbers.py: {options.bench_random} ended with {done.returncode}:\n{done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["case"].split(",")[0]: line["values_per_second"] for line in lines}  # the best comes last


def torch_rates(values):
    import torch
    torch.set_num_threads(1)
    mask, numbers = torch.empty(values, dtype=torch.bool), torch.empty(values)

    def rate(fill):
        began = time.perf_counter()
        for _ in range(CALLS):
            fill()
        return CALLS * values / (time.perf_counter() - began)

    return {"keep": rate(lambda: mask.bernoulli_(0.9)), "uniform": rate(numbers.uniform_)}


def main():
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it at import
    options = arguments()
    rounds = [(zeroth(options), torch_rates(options.values)) for _ in range(options.rounds + 1)][1:]  # one for warmth
    import torch
    record = {"values": options.values, "torch": torch.__version__}
    for case in ("keep", "uniform"):
        record[case] = {"zeroth_per_second": statistics.median(ours[case] for ours, _ in rounds),
                        "torch_per_second": statistics.median(theirs[case] for _, theirs in rounds),
                        "ratio": statistics.median(ours[case] / theirs[case] for ours, theirs in rounds)}
    print(json.dumps(record))


if __name__ == "__main__":
    main()
