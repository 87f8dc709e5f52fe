# SPDX-License-Identifier: Apache-2.0
"""Trains the models of scripts/gpu_check.sh with PyTorch on one GPU: GPT-2 in bf16 with fp32 masters, clipping and
fused AdamW.

    torchrun --nproc-per-node 1 bench/peers/gpu.py [--model 124M|1.5B] [--peer autocast|fsdp2] [--compile] [--out FILE]

Appends a JSON line to FILE: tokens per second (median of the steps after three), milliseconds of each step, peak memory
of PyTorch's allocator, the micro-batch and versions. The micro-batch is the largest of 16, 8 and 4 that fits.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import gpt
from frameworks import groups
from loads import Load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from lib.gpu_cases import GPT2  # noqa: E402

OPTIMIZER = {"lr": 1e-4, "betas": (0.9, 0.95), "fused": True}
DECAY = 0.1
CLIPPING = 1.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=GPT2, default="1.5B")
    parser.add_argument("--peer", choices=("autocast", "fsdp2"), default="fsdp2")
    parser.add_argument("--compile", action="store_true", help="each block by itself")
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", default="/dev/stdout")
    return parser.parse_args()


def make(options, load):
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = gpt.Gpt(load)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
    if options.compile:
        for block in model.h:
            block.compile()
    if options.peer == "fsdp2":
        mesh = dist.init_device_mesh("cuda", (1,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
        for block in model.h:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    parameters = [group | {"weight_decay": DECAY if group["weight_decay"] else 0.0} for group in groups(model)]
    return model, torch.optim.AdamW(parameters, **OPTIMIZER)


def step(options, model, optimizer, load):
    for micro_step in range(options.accumulate):
        rows = torch.randint(0, 256, (load.micro_batch, load.context + 1), device="cuda")
        if options.peer == "fsdp2":
            model.set_requires_gradient_sync(micro_step == options.accumulate - 1)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=options.peer == "autocast"):
            loss = model(rows[:, :-1], rows[:, 1:])
        (loss / options.accumulate).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPING)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def measure(options, load):
    torch.cuda.reset_peak_memory_stats()
    model, optimizer = make(options, load)
    step_ms, losses = [], []
    for _ in range(options.steps):
        before = time.perf_counter()
        losses.append(step(options, model, optimizer, load))
        step_ms.append(1e3 * (time.perf_counter() - before))
    tokens = load.micro_batch * options.accumulate * load.context
    return {"peer": options.peer, "compiled": options.compile, "model": options.model, "micro_batch": load.micro_batch,
            "accumulate": options.accumulate, "tokens_per_s": tokens / statistics.median(step_ms[3:]) * 1e3, "step_ms": step_ms,
            "peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(), "last_loss": losses[-1],
            "device": torch.cuda.get_device_name(), "torch": torch.__version__}


def main():
    options = arguments()
    gpt.VOCABULARY = GPT2[options.model].vocabulary
    shape = GPT2[options.model]
    load = Load(shape.layers, shape.heads, shape.channels, shape.context, micro_batch=16, steps=options.steps)
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    record = None
    while record is None:
        try:
            record = measure(options, load)
        except torch.cuda.OutOfMemoryError:
            if load.micro_batch == 4:
                raise
        if record is None:  # memory that the exception held is free now
            torch.cuda.empty_cache()
            load = dataclasses.replace(load, micro_batch=load.micro_batch // 2)
    with open(options.out, "a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
