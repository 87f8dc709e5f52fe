#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times steps of train_gpt that keep activations, recompute all blocks, or keep the blocks' inputs on a disk; and steps
of PyTorch without and with torch.utils.checkpoint around each block. One rank, in turns, on one thread each.

    .venv/bin/python bench/peers/activations.py --nvme /nvme

A ratio is a step's time over that of the same system that keeps everything, in the same round. `hidden` is the fraction of the
transfers' time, from a trace of another run, that compute did not wait for. Prints the medians as a line of JSON.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import launch
from loads import CLIPPING, LOADS, OPTIMIZER, PRECISIONS, stage_file
from run import DEFAULT_TEXT, REPOSITORY, commit, concatenate, machine, positive

RECOMPUTED = {"units": "all"}
SLOTS = 2  # of train_gpt


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=("L1", "L2"), default="L1")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--steps", type=positive, default=6, help="measured per turn, after two others [6]")
    parser.add_argument("--nvme", type=pathlib.Path, required=True, help="folder on the disk for the blocks' inputs")
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--limit", type=positive, default=300, help="seconds that a turn may take [300]")
    return parser.parse_args()


class Zeroth:
    def __init__(self, options, load, folder):
        self.options, self.load, self.folder = options, load, folder
        self.program = launch.Zeroth(options.train_gpt.resolve(), folder / "data.txt", folder, options.limit)
        self.program.save_initial(load, folder / "initial")
        self.peak_bytes = {}  # peak memory of the process, by the file's setting

    def file(self, kept):
        file = json.loads(stage_file(0, self.load, self.options.precision))
        file["zeroth"] = {"activation_checkpointing": kept}
        return json.dumps(file)

    def run(self, kept, more=()):
        """Runs train_gpt; returns the records of its report."""
        records, peaks = self.program._run(self.file(kept), self.load, 1, "threads", self.load.warmup + self.load.steps,
                                           ["--init", self.folder / "initial", *more])
        self.peak_bytes[json.dumps(kept)] = sum(peaks)
        return records

    def steps(self, kept):
        return [record for record in self.run(kept) if record["record"] == "step"]

    def transfers_ms(self, kept):
        """The time of writes and reads in a traced step, on streams concurrent with math, and the waits of that
        step."""
        trace = self.folder / "trace.json"
        steps = [record for record in self.run(kept, ["--trace", trace]) if record["record"] == "step"]
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        traced = sum(1 for event in events if event.get("cat") == "decide")
        moved = sum(event["dur"] for event in events if event.get("ph") == "X" and event.get("cat") in ("read", "write")) / 1e3
        return moved / traced, statistics.median(step["activation_ms"] for step in steps[self.load.warmup:])


def torch_steps(options, load, folder, checkpoints):
    """Milliseconds and losses of train_gpt's model in PyTorch, with AdamW and clipping."""
    import torch
    from torch.utils.checkpoint import checkpoint

    import gpt

    class Checkpointed(gpt.Gpt):
        def layers(self, x):
            for block in self.h:
                x = checkpoint(block, x, use_reentrant=False)
            return self.ln_f(x)

    torch.set_num_threads(1)
    model = (Checkpointed if checkpoints else gpt.Gpt)(load)
    weights = gpt.SavedWeights(folder / "initial")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=OPTIMIZER["lr"], betas=OPTIMIZER["betas"], eps=OPTIMIZER["eps"],
                                  weight_decay=OPTIMIZER["weight_decay"])
    batches = gpt.Batches(folder / "data.txt", load)
    spent, losses = [], []
    for number in range(load.warmup + load.steps):
        began = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(*batches.of_step(number, 0, 1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPING)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        spent.append(1e3 * (time.perf_counter() - began))
    return spent, losses


def main():
    os.environ["OMP_NUM_THREADS"] = "1"  # torch reads it at import
    options = arguments()
    load = dataclasses.replace(LOADS[options.load], steps=options.steps)
    on_disk = RECOMPUTED | {"offload": "nvme", "nvme_path": str(options.nvme.resolve())}
    median = statistics.median
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        concatenate(options.data, folder / "data.txt")
        zeroth = Zeroth(options, load, folder)
        turns = {"kept": lambda: zeroth.steps({}), "recomputed": lambda: zeroth.steps(RECOMPUTED),
                 "on disk": lambda: zeroth.steps(on_disk),
                 "torch kept": lambda: torch_steps(options, load, folder, False),
                 "torch recomputed": lambda: torch_steps(options, load, folder, True)}
        rounds, losses = [], {}
        for number in range(options.rounds):
            took = {}
            names = list(turns)
            for turn in names[number % len(names):] + names[:number % len(names)]:
                result = turns[turn]()
                is_torch = turn.startswith("torch")
                took[turn] = median((result[0] if is_torch else [step["step_ms"] for step in result])[load.warmup:])
                losses[turn] = result[1] if is_torch else [step["loss"] for step in result]
            rounds.append(took)
            print(f"round {number}: {took}", file=sys.stderr, flush=True)
        peaks = {key: zeroth.peak_bytes[json.dumps(kept)]
                 for key, kept in (("kept", {}), ("recomputed", RECOMPUTED), ("on_disk", on_disk))}
        moved, waited = zeroth.transfers_ms(on_disk)
    import torch
    if not losses["kept"] == losses["recomputed"] == losses["on disk"]:
        sys.exit("activations.py: the policies have other losses")
    worst = max(abs(ours - theirs) / theirs for ours, theirs in zip(losses["kept"], losses["torch kept"]))
    input_bytes = load.micro_batch * load.context * load.channels * (2 if options.precision == "bf16" else 4)
    print(json.dumps({
        "benchmark": "activations", "machine": machine(), "zeroth": commit(), "torch": torch.__version__, "load": options.load,
        "precision": options.precision, "rounds": options.rounds,
        "kept_ms": median(each["kept"] for each in rounds),
        "recomputed_over_kept": median(each["recomputed"] / each["kept"] for each in rounds),
        "on_disk_over_recomputed": median(each["on disk"] / each["recomputed"] for each in rounds),
        "torch_kept_ms": median(each["torch kept"] for each in rounds),
        "torch_recomputed_over_kept": median(each["torch recomputed"] / each["torch kept"] for each in rounds),
        "worst_loss_beside_torch": worst, "transfers_ms": moved, "waited_ms": waited, "hidden": 1 - waited / moved,
        "slots_bytes": SLOTS * -(-input_bytes // 4096) * 4096, "inputs_bytes": load.layers * input_bytes, "peak_bytes": peaks}))


if __name__ == "__main__":
    main()
