# SPDX-License-Identifier: Apache-2.0
"""Reports as train_gpt writes them, with the arithmetic of docs/memory_model.md: 3.3 M parameters in fp32 on 4 ranks."""

import json
import math

COUNT, WORLD, LARGEST_UNIT = 3_300_096, 4, 789_760


def memory(stage):
    whole, shard = 4 * COUNT, COUNT
    planned = {
        "parameters": shard if stage == 3 else whole,
        "gradients": shard if stage >= 2 else whole,
        "optimizer": 2 * (whole if stage == 0 else shard),
        "slots": {0: 0, 1: 0, 2: 2, 3: 4}[stage] * 4 * LARGEST_UNIT,
        "scratch": 24_576,
    }
    planned["total"] = sum(planned.values())
    return planned


def records(stage, steps=60, behind=0):
    """`behind`: the step of the checkpoint from which the run resumed."""
    lines = [{"record": "run", "world": WORLD, "steps": steps, "data": {"path": "/usr/include/eigen3", "sequences": 9},
              "model": {"layers": 4, "heads": 4, "channels": 256, "context": 128, "vocabulary": 256},
              "config": {"zero_optimization.stage": {"value": stage, "origin": "file"}},
              "resumed": {"checkpoint": f"saved/step_{behind:08}", "step": behind} if behind else None}]
    for step in range(behind + 1, steps + 1):
        ms = 400 + 9 * stage + 11 * math.sin(step * 1.7 + stage)
        loss = 2.2 + 3.4 * math.exp(-step / 14) + 0.06 * math.sin(step * 2.3)
        lines.append({"record": "step", "step": step, "loss": float(f"{loss:.9g}"), "grad_norm": 1.5, "lr": 3e-4,
                      "loss_scale": 1, "skipped": False, "step_ms": ms, "tokens_per_s": 2048 / ms * 1e3,
                      "exposed_comm_ms": 6 + 5 * stage})
    lines += [{"record": "memory", "rank": rank, "planned": memory(stage), "measured_peak": memory(stage)}
              for rank in range(WORLD)]
    return lines


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
