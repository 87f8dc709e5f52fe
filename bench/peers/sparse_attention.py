#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares block-sparse attention of train_gpt with PyTorch's scaled_dot_product_attention with the same mask, in
turns, on one thread.

    .venv/bin/python bench/peers/sparse_attention.py
    .venv/bin/python bench/peers/sparse_attention.py --memory

One head, forward and backward. A ratio is PyTorch's time over train_gpt's in the same round; above 1, train_gpt is faster.
PyTorch's attention without a mask, causal, is measured too. Prints the medians as a line of JSON.

--memory compares peak memory instead, inputs and results included: of train_gpt with ten times the context, over
PyTorch's dense attention that keeps scores (its math backend) and its attention with the mask. Each runs once, in its
own process.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from resident import Growth, return_what_is_freed
from run import positive

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BLOCK, WIDTH = 64, 64
BACKENDS = ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"]  # PyTorch uses the first that supports the call
LONGER = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=positive, default=8192, help="a multiple of 64 [8192]")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of times")
    parser.add_argument("--bench-attention", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_attention")
    return parser.parse_args()


def zeroth(options, context, *more):
    command = [options.bench_attention, str(context), "1", "--precision", options.precision, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"sparse_attention.py: {options.bench_attention} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def torch_seconds(options, blocks, backends=None):
    import torch
    torch.set_num_threads(1)
    dtype = torch.float32 if options.precision == "fp32" else torch.bfloat16
    shape = (1, 1, options.context, WIDTH)
    query, key, value = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3))
    slope = torch.randn(shape, dtype=dtype)
    mask = None
    if blocks is not None:
        rows = options.context // BLOCK
        layout = torch.frombuffer(bytearray(blocks), dtype=torch.uint8).view(rows, rows).bool()
        mask = layout.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1).tril()
    began = time.perf_counter()
    attention = torch.nn.functional.scaled_dot_product_attention
    with torch.nn.attention.sdpa_kernel([getattr(torch.nn.attention.SDPBackend, name) for name in backends or BACKENDS]):
        attention(query, key, value, attn_mask=mask, is_causal=mask is None).backward(slope)
    return time.perf_counter() - began


def torch_peak(options, blocks, backends):
    """The peak memory of a process that does nothing else."""
    import torch
    torch.set_num_threads(1)
    small = argparse.Namespace(**{**vars(options), "context": 2 * BLOCK})
    torch_seconds(small, None, backends)  # memory that libraries keep does not count
    return_what_is_freed()
    growth = Growth()
    torch_seconds(options, blocks, backends)
    return growth.peak()


def compare_memory(options, mask):
    ours = zeroth(options, LONGER * options.context, "--memory")
    short = zeroth(options, options.context, "--memory", "--mask", mask)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        kept = pool.apply(torch_peak, (options, None, ["MATH"]))
        masked = pool.apply(torch_peak, (options, mask.read_bytes(), None))
    print(json.dumps({
        "context": options.context, "precision": options.precision, "longer_context": LONGER * options.context,
        "longer_density": ours["density"], "zeroth_longer_bytes": ours["peak_bytes"], "zeroth_bytes": short["peak_bytes"],
        "torch_kept_scores_bytes": kept, "torch_masked_bytes": masked, "longer_over_kept": ours["peak_bytes"] / kept,
        "longer_over_masked": ours["peak_bytes"] / masked}))


def compare_times(options, mask):
    rounds = []
    for _ in range(options.rounds + 1):
        ours = zeroth(options, options.context, "--mask", mask)
        rounds.append((ours, torch_seconds(options, mask.read_bytes()), torch_seconds(options, None)))
    rounds = rounds[1:]  # one for warmth
    import torch
    print(json.dumps({
        "context": options.context, "precision": options.precision, "torch": torch.__version__,
        "density": rounds[0][0]["density"],
        "zeroth_seconds": statistics.median(ours["seconds"] for ours, _, _ in rounds),
        "torch_masked_seconds": statistics.median(masked for _, masked, _ in rounds),
        "torch_causal_seconds": statistics.median(causal for _, _, causal in rounds),
        "ratio_to_masked": statistics.median(masked / ours["seconds"] for ours, masked, _ in rounds),
        "ratio_to_causal": statistics.median(causal / ours["seconds"] for ours, _, causal in rounds),
        "time_over_density_times_dense": statistics.median(
            ours["time_over_density_times_dense"] for ours, _, _ in rounds)}))


def main():
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it at import
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        (compare_memory if options.memory else compare_times)(options, pathlib.Path(folder) / "mask")


if __name__ == "__main__":
    main()
