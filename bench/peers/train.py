# SPDX-License-Identifier: Apache-2.0
"""One rank of a peer, started by run.py or by hand:

    OMP_NUM_THREADS=1 DS_ACCELERATOR=cpu torchrun --nproc-per-node 2 bench/peers/train.py --peer fsdp2 --variant tuned \\
        --load L1 --initial FOLDER --data FILE --out PREFIX

Writes PREFIX.<rank>.json: milliseconds and loss (of this rank's rows) of every step, peak memory above that of an idle
process, and versions. FOLDER is the output of train_gpt --save-initial. The process is idle after it has trained a
model of a thousand parameters with this peer for a step, because memory of modules that PyTorch and DeepSpeed import at
first use does not belong to the model.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import time

import torch

import frameworks
import gpt
from loads import IDLE, LOADS, PRECISIONS, VARIANTS, tokens_per_second
from resident import Growth, return_what_is_freed


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=frameworks.MAKERS, required=True)
    parser.add_argument("--variant", choices=VARIANTS, default="default")
    parser.add_argument("--load", choices=LOADS, required=True)
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--nvme", type=pathlib.Path, help="folder for the optimizer's states, of deepspeed3 alone")
    parser.add_argument("--initial", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, help="measured, after the warm-up")
    return parser.parse_args(words)


def versions(*names):
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}


def train_idle(options, make):
    step = make(IDLE, gpt.ConstantWeights(), options.variant != "default", options.precision)
    step(*gpt.Batches(options.data, IDLE).of_step(0, 0, 1))


def timed_steps(step, batches, load, rank, world):
    """Milliseconds and loss of each step, warm-up included."""
    step_ms, losses = [], []
    before = time.perf_counter()
    for number in range(load.warmup + load.steps):
        losses.append(step(*batches.of_step(number, rank, world)))
        now = time.perf_counter()
        step_ms.append(1e3 * (now - before))
        before = now
    return step_ms, losses


def train(options, load, rank, world):
    make = frameworks.deepspeed(3, options.nvme) if options.nvme else frameworks.MAKERS[options.peer]
    batches = gpt.Batches(options.data, load)
    bare = Growth()
    train_idle(options, make)
    growth = Growth()
    step = make(load, gpt.SavedWeights(options.initial), options.variant != "default", options.precision)
    step_ms, losses = timed_steps(step, batches, load, rank, world)
    return {"rank": rank, "world": world, "peer": options.peer, "variant": options.variant, "step_ms": step_ms,
            "losses": losses, "tokens_per_s": tokens_per_second(step_ms, load, world), "bare_bytes": bare.idle,
            "idle_bytes": growth.idle, "peak_bytes": growth.peak(), "threads": torch.get_num_threads(),
            "versions": versions("torch", *(["deepspeed"] if options.peer.startswith("deepspeed") else []))}


def main(words=None):
    options = arguments(words)
    load = LOADS[options.load]
    if options.steps is not None:
        load = dataclasses.replace(load, steps=options.steps)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    if options.variant == "lean":
        return_what_is_freed()
    with frameworks.process_group(options.peer):
        record = train(options, load, rank, world)
    pathlib.Path(f"{options.out}.{rank}.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
