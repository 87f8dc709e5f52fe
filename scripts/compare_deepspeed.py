#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the effects of DeepSpeed's keys in Zeroth with an installed DeepSpeed: batch sizes, schedules, loss scaler,
Adam.

    python3 -m venv /tmp/deepspeed && /tmp/deepspeed/bin/pip install deepspeed==0.19.8 torch ninja
    ninja -C build/dev replay
    /tmp/deepspeed/bin/python scripts/compare_deepspeed.py --replay build/dev/bin/replay

Zeroth's side is an engine of one rank that is given gradients (tests/config/replay.cpp). DeepSpeed's side is its own
classes on the CPU. Batch sizes and loss scales must be equal. Learning rates may differ by fp32's rounding. Weights
must agree within a bound: the two sides round in different orders, and both are compared with PyTorch's Adam in fp64.
DeepSpeed's Adam for the CPU is compiled at its first use; if that fails, PyTorch's is used, which is printed. Exit
status: 1 if anything differs.
"""
import argparse
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.runtime import config as ds_config  # noqa: E402
from deepspeed.runtime import lr_schedules  # noqa: E402
from deepspeed.runtime.fp16 import loss_scaler  # noqa: E402

WORLD = 4
RATE_BOUND = 2e-7  # relative, of a rate: fp32's rounding
# The largest distance of a side's weights from the fp64 result, relative to the largest weight: 40 steps of fp32
# rounding. Between the two sides it is twice that.
WEIGHT_BOUND = 1e-6


class Replay:
    """Runs the program once, with all requests."""

    def __init__(self, program):
        self.program = program

    def __call__(self, requests):
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run([self.program], input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


def report(what, cases, wrong, more=""):
    print(f"{what}: {cases} cases, {len(wrong)} different{more}")
    for line in wrong[:5]:
        print(f"  {line}")
    return not wrong


# ---- batch sizes


def batch_files():
    """Each of the three sizes absent or one of several: 9 x 6 x 5 = 270."""
    trains, micros, steps = (None, 1, 4, 8, 12, 16, 24, 32, 64), (None, 1, 2, 3, 4, 8), (None, 1, 2, 3, 4)
    for sizes in itertools.product(trains, micros, steps):
        keys = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        yield {key: size for key, size in zip(keys, sizes) if size is not None}


def deepspeed_batch(file):
    try:
        config = ds_config.DeepSpeedConfig(dict(file))
    except Exception:  # assertions among them
        return None
    return {"train": config.train_batch_size, "micro": config.train_micro_batch_size_per_gpu,
            "accumulation": config.gradient_accumulation_steps}


def compare_batches(replay):
    ds_config.dist = types.SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda *_: WORLD)
    files = list(batch_files())
    wrong, refused = [], 0
    for file, ours in zip(files, replay([{"config": file, "world": WORLD} for file in files])):
        theirs = deepspeed_batch(file)
        refused += theirs is None
        if theirs != (None if "refused" in ours else ours):
            wrong.append(f"{file}: DeepSpeed {theirs}, Zeroth {ours}")
    return report(f"batch sizes on {WORLD} ranks", len(files), wrong, f"; {refused} refused by both")


# ---- schedules


def schedule_files(random_):
    for kind in ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR"):
        for _ in range(20):
            params = {}
            if random_.random() < 0.8:
                params["warmup_num_steps"] = random_.choice([1, 2, 3, 5, 10, 25])
            else:
                params["warmup_num_steps"] = 20
            if random_.random() < 0.7:
                params["warmup_type"] = random_.choice(["log", "linear"])
            if kind == "WarmupCosineLR":
                params["warmup_min_ratio"] = random_.choice([0.0, 0.1])
                params["cos_min_ratio"] = random_.choice([0.0001, 0.05])
            else:
                params["warmup_min_lr"] = random_.choice([0, 1e-5, 1e-4])
                if kind == "WarmupDecayLR" or random_.random() < 0.7:
                    params["warmup_max_lr"] = random_.choice([1e-3, 6e-4])
            if kind != "WarmupLR":
                params["total_num_steps"] = params["warmup_num_steps"] + random_.choice([0, 1, 10, 30])
            yield {"type": kind, "params": params}
    for _ in range(30):
        params = {"cycle_min_lr": 1e-4, "cycle_max_lr": random_.choice([1e-3, 5e-4]), "cycle_momentum": False,
                  "cycle_first_step_size": random_.choice([1, 7, 10, 20])}
        optional = {"cycle_second_step_size": [0, 5, 15], "cycle_first_stair_count": [3, 5],
                    "cycle_second_stair_count": [0, 2, 4], "decay_step_size": [1, 4], "decay_lr_rate": [0.5, 2.0]}
        params.update({key: random_.choice(values) for key, values in optional.items() if random_.random() < 0.6})
        yield {"type": "OneCycle", "params": params}
    for _ in range(20):
        yield {"type": "LRRangeTest",
               "params": {"lr_range_test_min_lr": random_.choice([1e-3, 1e-5]),
                          "lr_range_test_step_size": random_.choice([1, 3, 10, 100]),
                          "lr_range_test_step_rate": random_.choice([0.5, 1.0, 5.0]),
                          "lr_range_test_staircase": random_.random() < 0.5}}
    for _ in range(10):  # torch's schedulers, which DeepSpeed finds by name
        yield {"type": "ConstantLR", "params": {"factor": random_.choice([0.1, 0.5]), "total_iters": random_.choice([1, 9])}}
        yield {"type": "LinearLR", "params": {"start_factor": random_.choice([0.01, 0.5, 1.0]),
                                              "end_factor": random_.choice([0.0, 0.3, 1.0])}}
        yield {"type": "CosineAnnealingLR", "params": {"T_max": random_.randint(1, 70), "eta_min": 1e-5}}
        yield {"type": "StepLR", "params": {"step_size": random_.randint(1, 30), "gamma": random_.choice([0.1, 0.9])}}
        yield {"type": "MultiStepLR", "params": {"milestones": [random_.randint(0, 70) for _ in range(4)]}}
        yield {"type": "ExponentialLR", "params": {"gamma": random_.choice([0.5, 0.99, 1.01])}}


def deepspeed_rates(scheduler, lr, steps, optimizer=torch.optim.SGD):
    tensor = torch.nn.Parameter(torch.zeros(1))
    torch_optimizer = optimizer([tensor], lr=lr)
    found = getattr(lr_schedules, scheduler["type"], None) or getattr(torch.optim.lr_scheduler, scheduler["type"])
    schedule = found(torch_optimizer, **scheduler["params"])  # found as DeepSpeed's engine finds it
    rates = []
    for _ in range(steps):
        rates.append(torch_optimizer.param_groups[0]["lr"])
        torch_optimizer.step()  # of no gradient
        schedule.step()
    return rates


def compare_schedules(replay, random_):
    lr, steps = 2e-3, 60
    schedules = list(schedule_files(random_))
    requests = [{"config": {"train_batch_size": 1, "optimizer": {"type": "SGD", "params": {"lr": lr}}, "scheduler": each},
                 "start": [0.0], "gradients": [[0.0]] * steps} for each in schedules]
    wrong, largest = [], 0
    for each, ours in zip(schedules, replay(requests)):
        theirs = deepspeed_rates(each, lr, steps)
        if "rates" not in ours:
            wrong.append(f"{each}: {ours}")
            continue
        for step, (a, b) in enumerate(zip(theirs, ours["rates"])):
            difference = abs(a - b) / max(abs(a), 1e-12)
            largest = max(largest, difference)
            if difference > RATE_BOUND:
                wrong.append(f"{each}, step {step + 1}: DeepSpeed {a}, Zeroth {b}")
                break
    return report(f"schedules, {steps} steps each", len(schedules), wrong, f"; largest relative difference {largest:.2g}")


# ---- loss scaler


def deepspeed_scales(fp16, overflows):
    scaler = loss_scaler.DynamicLossScaler(2.0**fp16["initial_scale_power"], fp16["loss_scale_window"],
                                           fp16["min_loss_scale"], fp16["hysteresis"],
                                           fp16["consecutive_hysteresis"])
    scales = []
    for overflow in overflows:
        scales.append(scaler.loss_scale)
        try:
            scaler.update_scale(overflow)
        except Exception:  # at the minimum
            return scales, True
    return scales, False


def compare_scalers(replay, random_):
    loss_scaler.dist = types.SimpleNamespace(get_rank=lambda: 1)  # without its output
    cases = []
    for _ in range(400):
        fp16 = {"enabled": True, "initial_scale_power": random_.choice([2, 4, 8, 16]),
                "loss_scale_window": random_.choice([1, 2, 3, 5, 10]), "hysteresis": random_.choice([1, 2, 3]),
                "min_loss_scale": random_.choice([1, 2, 4]), "consecutive_hysteresis": random_.random() < 0.5}
        often = random_.choice([0.05, 0.2, 0.5])
        cases.append((fp16, [random_.random() < often for _ in range(60)]))
    requests = [{"config": {"train_batch_size": 1, "fp16": fp16, "zeroth": {"gradient_dtype": "fp32"}}, "start": [0.0],
                 "gradients": [None if overflow else [0.0] for overflow in overflows]} for fp16, overflows in cases]
    wrong, ended = [], 0
    for (fp16, overflows), ours in zip(cases, replay(requests)):
        scales, ends = deepspeed_scales(fp16, overflows)
        ended += ends
        # The step that ends training throws, so it has no report.
        expected = scales[:-1] if ends else scales
        if ours.get("scales") != expected or ("ended" in ours) != ends:
            wrong.append(f"{fp16}: DeepSpeed {expected}, ends {ends}; Zeroth {ours}")
    return report("overflow sequences of 60 steps", len(cases), wrong, f"; {ended} end at the smallest scale, both alike")


# ---- Adam


def reference_adam(weights, params, decoupled):
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        return DeepSpeedCPUAdam([weights], adamw_mode=decoupled, **params), "DeepSpeedCPUAdam"
    except Exception as error:  # no compiler, or an unknown one
        print(f"DeepSpeedCPUAdam cannot be had ({str(error).splitlines()[0]}): PyTorch's Adam is taken")
        which = torch.optim.AdamW if decoupled else torch.optim.Adam
        params = {name: value for name, value in params.items() if name != "bias_correction"}
        return which([weights], **params), "torch.optim"


def compare_adam(replay, random_):
    elements, steps = 512, 40
    wrong, name, cases = [], "", []
    for kind, decay, eps, betas in itertools.product(("AdamW", "Adam"), (0.0, 0.1), (1e-8, 1e-5),
                                                     ((0.9, 0.999), (0.9, 0.95))):
        cases.append((kind, {"lr": 1e-3, "betas": betas, "eps": eps, "weight_decay": decay}))
    start = [random_.gauss(0, 1) for _ in range(elements)]
    gradients = [[random_.gauss(0, 10.0**random_.randint(-4, 0)) for _ in range(elements)] for _ in range(steps)]
    requests = []
    for kind, params in cases:
        more = {"adam_w_mode": False} if kind == "Adam" else {}
        requests.append({"config": {"train_batch_size": 1, "gradient_clipping": 0,
                                    "optimizer": {"type": kind, "params": {**params, **more}}},
                         "start": start, "gradients": gradients})
    distances = {"both": 0, "Zeroth": 0, "DeepSpeed": 0}
    for (kind, params), ours in zip(cases, replay(requests)):
        optimizers = {}
        weights = torch.nn.Parameter(torch.tensor(start, dtype=torch.float32))
        optimizers["DeepSpeed"], name = reference_adam(weights, params, kind == "AdamW")
        exact = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
        optimizers["exact"] = (torch.optim.AdamW if kind == "AdamW" else torch.optim.Adam)([exact], **params)
        for gradient in gradients:
            for tensor in (weights, exact):
                tensor.grad = torch.tensor(gradient, dtype=torch.float32).to(tensor.dtype)
            for optimizer in optimizers.values():
                optimizer.step()
        largest = exact.detach().abs().max()
        zeroth, theirs, reference = torch.tensor(ours["weights"]).double(), weights.detach().double(), exact.detach()
        apart = {"both": zeroth - theirs, "Zeroth": zeroth - reference, "DeepSpeed": theirs - reference}
        apart = {what: (difference.abs().max() / largest).item() for what, difference in apart.items()}
        distances = {what: max(distances[what], apart[what]) for what in apart}
        if apart["Zeroth"] > WEIGHT_BOUND or apart["both"] > 2 * WEIGHT_BOUND:
            wrong.append(f"{kind} {params}: {apart}")
    return report(f"Adam against {name}, {elements} weights, {steps} steps", len(cases), wrong,
                  f"; of the largest weight at most {distances['both']:.2g} apart, and {distances['Zeroth']:.2g} "
                  f"(DeepSpeed {distances['DeepSpeed']:.2g}) from the same in fp64")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", required=True, help="the program")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    replay, random_ = Replay(options.replay), random.Random(options.seed)
    print(f"DeepSpeed {deepspeed.__version__}, PyTorch {torch.__version__}")
    passed = [compare_batches(replay), compare_schedules(replay, random_), compare_scalers(replay, random_),
              compare_adam(replay, random_)]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
