# SPDX-License-Identifier: Apache-2.0
"""The loads, the optimizer, and an equivalent stage file for Zeroth. Needs no PyTorch."""

import json
import statistics
from dataclasses import dataclass

OPTIMIZER = {"lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1}
# For the matrices of blocks; AdamW with OPTIMIZER updates all other parameters. The learning-rate factor is the same
# for [in, out] and [out, in].
MUON = {"lr": 1e-4, "momentum": 0.95, "weight_decay": 0.1, "nesterov": True, "ns_steps": 5, "adjust_lr_fn": "match_rms_adamw"}
CLIPPING = 1.0
VOCABULARY = 256

# In elements. Small enough for sharding to save memory on models of 10 to 100 million parameters, for which the peers'
# defaults (5e8 and 5e7) would hold the whole model. Tuned DeepSpeed gets the same.
REDUCE_BUCKET = 2_000_000
PREFETCH_BUCKET = 4_000_000
SUB_GROUP = 1 << 20  # elements of states on a disk that are updated at a time

# Each peer runs with its defaults, as its documentation advises, and as advised with a malloc that returns freed memory
# at once.
VARIANTS = ("default", "tuned", "lean")


@dataclass(frozen=True)
class Load:
    layers: int
    heads: int
    channels: int
    context: int
    micro_batch: int
    steps: int  # measured in one turn, after `warmup` others
    ranks: tuple = (2, 4)
    warmup: int = 2  # the first steps allocate, and ZeRO-3 prefetches from the second on


LOADS = {
    "L1": Load(layers=6, heads=6, channels=384, context=256, micro_batch=4, steps=3),
    "L2": Load(layers=6, heads=6, channels=384, context=128, micro_batch=1, steps=8, warmup=3),
    "state": Load(layers=12, heads=12, channels=768, context=64, micro_batch=1, steps=2, ranks=(4,)),
}
# A tiny load, for the memory that a process of Zeroth needs without a model.
IDLE = Load(layers=1, heads=1, channels=8, context=8, micro_batch=1, steps=1, warmup=0)

# In bf16, activations and gradients are bf16, and masters fp32.
PRECISIONS = ("fp32", "bf16")


def on_disk(folder):
    """Keys of zero_optimization for optimizer states in files."""
    return {"offload_optimizer": {"device": "nvme", "nvme_path": str(folder)}, "sub_group_size": SUB_GROUP}


def stage_file(stage, load, precision, nvme=None, optimizer="AdamW"):
    """Text of a stage file for train_gpt. `nvme`: a folder for the optimizer's states; by default they are in memory.
    `optimizer`: AdamW or Muon."""
    return json.dumps({
        "train_micro_batch_size_per_gpu": load.micro_batch,
        "gradient_clipping": CLIPPING,
        "bf16": {"enabled": precision == "bf16"},
        "zero_optimization": {"stage": stage, "overlap_comm": True, "reduce_bucket_size": REDUCE_BUCKET,
                              "stage3_prefetch_bucket_size": PREFETCH_BUCKET, **(on_disk(nvme) if nvme else {})},
        "optimizer": {"type": optimizer, "params": OPTIMIZER | (MUON if optimizer == "Muon" else {})},
    }, indent=2) + "\n"


def tokens_per_second(step_ms, load, world):
    """Tokens per second of all ranks together, from the median of the steps after warm-up."""
    return load.micro_batch * load.context * world / statistics.median(step_ms[load.warmup:]) * 1e3
