# SPDX-License-Identifier: Apache-2.0
"""The options of a peer's rank, and a timed run of it. Writes the same files as train.py."""

import argparse
import dataclasses
import json
import os
import pathlib

import torch

import frameworks
import gpt
from loads import LOADS, PRECISIONS, VARIANTS, tokens_per_second
from resident import Growth, return_what_is_freed
from train import timed_steps, versions


def arguments(description, kind, kinds, words=None):
    """`--<kind>` is one of `kinds`; the other options are the same for all ranks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{kind}", choices=kinds, required=True)
    parser.add_argument("--variant", choices=VARIANTS, default="default")
    parser.add_argument("--load", choices=LOADS, required=True)
    parser.add_argument("--micro-steps", type=int, required=True)
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--initial", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, help="measured, after the warm-up")
    return parser.parse_args(words)


def world_size():
    return int(os.environ["WORLD_SIZE"])


def run(options, make_step, idle, idle_micro_steps, packages=("torch",)):
    """Times the steps of the function that `make_step(load, weights, options, micro_steps)` returns. Runs a step of the
    small load `idle` first, and counts memory from there. The record has the versions of `packages`."""
    load = LOADS[options.load]
    load = dataclasses.replace(load, steps=options.steps or load.steps, micro_batch=load.micro_batch * options.micro_steps)
    rank, world = int(os.environ["RANK"]), world_size()
    torch.set_num_threads(1)
    if options.variant == "lean":
        return_what_is_freed()
    with frameworks.process_group("torch"):
        bare = Growth()
        make_step(idle, gpt.ConstantWeights(), options, idle_micro_steps)(*gpt.Batches(options.data, idle).of_step(0, 0, 1))
        growth = Growth()
        step = make_step(load, gpt.SavedWeights(options.initial), options, options.micro_steps)
        step_ms, losses = timed_steps(step, gpt.Batches(options.data, load), load, 0, 1)
        record = {"rank": rank, "world": world, "step_ms": step_ms, "losses": losses,
                  "tokens_per_s": tokens_per_second(step_ms, load, 1), "bare_bytes": bare.idle, "idle_bytes": growth.idle,
                  "peak_bytes": growth.peak(), "versions": versions(*packages)}
    pathlib.Path(f"{options.out}.{rank}.json").write_text(json.dumps(record), encoding="utf-8")
