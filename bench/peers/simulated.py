# SPDX-License-Identifier: Apache-2.0
"""Simulates a step by `zeroth simulate`, on a machine with the measured math rate of one rank alone."""

import json
import pathlib
import re
import subprocess

from loads import VOCABULARY

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Simulator:
    def __init__(self, zeroth, folder, machine=REPOSITORY / "configs/machines/two_cores.json"):
        self.zeroth, self.folder = zeroth, folder
        self.machine = machine.read_text(encoding="utf-8")

    def step_ms(self, load, stage_file, ranks, rate):
        """The simulated step time of `stage_file`, with `rate` operations per second."""
        files = {name: self.folder / f"simulated_{name}.json" for name in ("model", "stage", "machine")}
        files["model"].write_text(json.dumps({
            "model_type": "gpt2", "n_layer": load.layers, "n_head": load.heads, "n_embd": load.channels,
            "n_positions": load.context, "vocab_size": VOCABULARY, "tie_word_embeddings": False}), encoding="utf-8")
        files["stage"].write_text(stage_file, encoding="utf-8")
        files["machine"].write_text(re.sub(r'("peak_flops_per_s": )[^,]*', rf"\g<1>{rate:.6g}", self.machine), encoding="utf-8")
        done = subprocess.run([self.zeroth, "simulate", "--model", files["model"], "--config", files["stage"], "--machine",
                               files["machine"], "--ranks", str(ranks), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.zeroth} simulate: {done.stderr}")
        found = json.loads(done.stdout)
        return next(of["step_ms"] for of in found["stages"] if of["stage"] == found["stage"])

    def rate(self, load, stage_file, measured_ms):
        """The operations per second with which one rank's step takes `measured_ms`: a constant plus the time of
        math."""
        slow, fast = 5e10, 1e11
        slow_ms, fast_ms = (self.step_ms(load, stage_file, 1, rate) for rate in (slow, fast))
        of_math = (slow_ms - fast_ms) / (1 / slow - 1 / fast)
        return of_math / (measured_ms - (fast_ms - of_math / fast))
