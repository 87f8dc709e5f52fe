#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rates of torch.optim.lr_scheduler's schedulers, for comparison by tests/config/test_torch_schedules.cpp.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.15.0
    /tmp/torch/bin/python scripts/torch_schedules.py > tests/config/torch_schedules.jsonl

The first line has torch's version. Each other line has a scheduler as a stage file has it, the optimizer's rate, and the
rates of updates 1, 2, 3, ... of a loop that steps the scheduler after each update.
"""
import json
import random
import warnings

import torch

UPDATES = 40


def schedulers(random_):
    """Schedulers: every type with its defaults if it has any, then with random parameters."""
    for kind in ("ConstantLR", "LinearLR"):
        yield kind, {}
    for _ in range(6):
        yield "ConstantLR", {"factor": random_.choice([0.01, 0.1, 0.5, 1.0]), "total_iters": random_.randint(1, 30)}
        yield "LinearLR", {"start_factor": random_.choice([0.01, 0.25, 1.0]), "total_iters": random_.randint(1, 30),
                           "end_factor": random_.choice([0.0, 0.3, 1.0])}
        cosine = {"T_max": random_.randint(1, 30)}
        if random_.random() < 0.5:
            cosine["eta_min"] = random_.choice([1e-5, 1e-3, 1.0])
        yield "CosineAnnealingLR", cosine
        more = {"gamma": random_.choice([0.0, 0.5, 0.9, 1.25])} if random_.random() < 0.7 else {}
        yield "StepLR", {"step_size": random_.randint(1, 20), **more}
        milestones = [random_.randint(0, 50) for _ in range(random_.randint(0, 16))]
        yield "MultiStepLR", {"milestones": milestones, **more}
        yield "ExponentialLR", {"gamma": random_.choice([0.5, 0.9, 0.99, 1.0, 1.1])}


def rates(kind, params, lr):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = getattr(torch.optim.lr_scheduler, kind)(optimizer, **params)
    result = []
    for _ in range(UPDATES):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


def main():
    warnings.simplefilter("error")
    print(json.dumps({"torch": torch.__version__}))
    random_ = random.Random(1)
    for kind, params in schedulers(random_):
        lr = random_.choice([1e-3, 3e-4, 0.1])
        scheduler = {"type": kind, "params": params}
        print(json.dumps({"scheduler": scheduler, "lr": lr, "rates": rates(kind, params, lr)}))


if __name__ == "__main__":
    main()
