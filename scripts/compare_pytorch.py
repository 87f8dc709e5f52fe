#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the same GPT-2 with train_gpt and with Hugging Face's GPT2LMHeadModel on PyTorch, and compares every step.

    python3 -m venv .venv && .venv/bin/pip install torch transformers
    .venv/bin/python scripts/compare_pytorch.py --train-gpt build/release/bin/train_gpt \\
        --config configs/zero3.json --data text.txt --ranks 2 --steps 20

Both start from the weights that train_gpt saved, read the same sequences in the same order, and use the optimizer,
weight decay, clipping and batch sizes of the stage file. PyTorch computes in one process in fp32, with the learning
rate that train_gpt reports. If the file's optimizer is Muon, as in configs/zero1_muon.json, torch.optim.Muon updates
the matrices of blocks, and AdamW all other parameters. Further options of train_gpt may follow after "--". Exit status:
1 if Hugging Face does not load a folder unchanged, or if losses or final weights differ by more than the bounds.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import torch
from transformers import GPT2LMHeadModel
from transformers.utils import logging

# Both sides round in fp32 but sum in different orders. The losses of one step differ by some 1e-7 of their value; each
# Adam update then propagates the difference. These bounds are a hundred times the differences seen after 20 steps. With
# Muon each step rounds directions to 8 bits, and products round them at different points. Differences seen after 50
# steps of 6 layers of 384 channels: 1.8e-4 in losses, 1.8e-2 in weights. Without Nesterov's momentum on one side,
# weights differ by 4e-2.
LOSS_BOUNDS = {"AdamW": 1e-4, "Muon": 1e-3}
WEIGHT_BOUNDS = {"AdamW": 1e-3, "Muon": 3e-2}


@dataclass
class Run:
    """A report of train_gpt."""

    facts: dict
    steps: list

    def setting(self, path):
        return self.facts["config"][path]["value"]

    @property
    def optimizer(self):
        return self.setting("optimizer.type")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-gpt", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a file, not a folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("more", nargs="*", help="options of train_gpt, after --")
    return parser.parse_args()


def train_gpt(options, report, *more):
    command = [options.train_gpt, "--config", options.config, "--data", options.data, "--ranks", options.ranks,
               "--report", report, *more]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    return Run(records[0], [record for record in records if record["record"] == "step"])


def load(folder):
    """The model in `folder`, and whether Hugging Face loaded it without a missing or unexpected key."""
    model, found = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True, dtype=torch.float32,
                                                   attn_implementation="eager")
    wrong = {what: sorted(map(str, names)) for what, names in found.items() if names}
    for what, names in wrong.items():
        print(f"{folder}: {what}: {', '.join(names)}")
    return model.train(), not wrong


def adamw(parameters, run, weight_decay):
    decayed, others = ([p for p in parameters if (p.dim() >= 2) is kind] for kind in (True, False))
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=tuple(run.setting("optimizer.params.betas")),
                             eps=run.setting("optimizer.params.eps"))


def muon(matrices, run, weight_decay):
    """train_gpt and GPT2LMHeadModel have the same shapes, [in, out], so that adjust_lr_fn is the same for both."""
    return torch.optim.Muon(matrices, weight_decay=weight_decay, momentum=run.setting("optimizer.params.momentum"),
                            nesterov=run.setting("optimizer.params.nesterov"), ns_steps=run.setting("optimizer.params.ns_steps"),
                            adjust_lr_fn=run.setting("optimizer.params.adjust_lr_fn"))


def make_optimizers(model, run):
    """[(optimizer, its rate over that of optimizer.params.lr)]"""
    if run.optimizer not in LOSS_BOUNDS or run.setting("data_types.param_dtype") != "fp32":
        sys.exit("compare_pytorch.py: the stage file must select AdamW or Muon, and fp32")
    weight_decay = run.setting("optimizer.params.weight_decay")
    if run.optimizer == "AdamW":
        return [(adamw(list(model.parameters()), run, weight_decay), 1.0)]
    matrices = [p for name, p in model.named_parameters() if ".h." in name and p.dim() == 2]
    others = [p for p in model.parameters() if all(p is not matrix for matrix in matrices)]
    lr, muon_lr, adam_lr = (run.setting(f"optimizer.params.{name}") for name in ("lr", "muon_lr", "adam_lr"))
    return [(muon(matrices, run, weight_decay), muon_lr / lr), (adamw(others, run, weight_decay), adam_lr / lr)]


def sequences(data, context, first, count):
    """Samples [first, first + count) in sequential order: inputs and targets."""
    whole = (len(data) - 1) // context
    starts = [(first + i) % whole * context for i in range(count)]
    rows = torch.stack([data[start:start + context + 1] for start in starts]).long()
    return rows[:, :-1], rows[:, 1:]


def exact_norm(gradients):
    """The gradient norm in fp64: PyTorch's own sums in fp32, with an error of about 7e-6."""
    return torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt()


def train_pytorch(model, run, data):
    """The losses and gradient norms of the steps that `run` took."""
    optimizers = make_optimizers(model, run)
    batch, micro = run.facts["batch"]["train"], run.facts["batch"]["micro"]
    context = run.facts["model"]["context"]
    clipping = run.setting("gradient_clipping") or float("inf")
    for number, step in enumerate(run.steps):
        model.zero_grad()
        loss = 0.0
        for first in range(0, batch, micro):
            inputs, targets = sequences(data, context, number * batch + first, micro)
            logits = model(inputs).logits
            part = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) * (micro / batch)
            part.backward()
            loss += part.item()
        norm = exact_norm([p.grad for p in model.parameters()])
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), clipping, norm)
        for optimizer, factor in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = step["lr"] * factor
            optimizer.step()
        yield loss, norm.item()


def difference(a, b):
    return abs(a - b) / abs(b)


def compare_steps(model, run, data):
    """Prints both runs side by side; returns the largest relative difference of losses."""
    print(f"{'step':>4}  {'loss':>12} {'PyTorch':>12} {'difference':>10}  {'norm':>11} {'PyTorch':>11} {'difference':>10}")
    worst = 0.0
    for step, (loss, norm) in zip(run.steps, train_pytorch(model, run, data)):
        apart = difference(step["loss"], loss)
        worst = max(worst, apart)
        print(f"{step['step']:>4}  {step['loss']:>12.8f} {loss:>12.8f} {apart:>10.1e}  "
              f"{step['grad_norm']:>11.7f} {norm:>11.7f} {difference(step['grad_norm'], norm):>10.1e}")
    print(f"largest relative difference of losses: {worst:.2e} (bound {LOSS_BOUNDS[run.optimizer]:.0e})")
    return worst


def compare_weights(start, ours, theirs, bound):
    """The difference of the final weights, relative to how far training moved them."""
    def distance(a, b):
        return sum((x - y).double().square().sum() for x, y in zip(a.parameters(), b.parameters())).sqrt().item()
    apart = distance(ours, theirs) / distance(start, theirs)
    print(f"final weights: apart by {apart:.2e} of the way from the start (bound {bound:.0e})")
    return apart


def main():
    options = arguments()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = train_gpt(options, folder / "report.jsonl", "--steps", options.steps, "--save-initial",
                        folder / "initial", "--save-final", folder / "final", *options.more)
        start, start_loads = load(folder / "initial")
        model, _ = load(folder / "initial")
        ours, final_loads = load(folder / "final")
        print(f"GPT2LMHeadModel.from_pretrained loads what train_gpt saved, without a missing or unexpected key: "
              f"{'yes' if start_loads and final_loads else 'NO'}")

        start.save_pretrained(folder / "theirs")
        again = train_gpt(options, folder / "again.jsonl", "--steps", 1, "--init", folder / "theirs", *options.more)
        same_start = again.steps[0]["loss"] == run.steps[0]["loss"]
        print(f"train_gpt --init of a folder that Hugging Face saved gives the same first loss: "
              f"{'yes' if same_start else 'NO'}")

        data = torch.frombuffer(bytearray(options.data.read_bytes()), dtype=torch.uint8)
        losses_apart = compare_steps(model, run, data)
        weights_apart = compare_weights(start, ours, model, WEIGHT_BOUNDS[run.optimizer])
    good = start_loads and final_loads and same_start
    near = losses_apart < LOSS_BOUNDS[run.optimizer] and weights_apart < WEIGHT_BOUNDS[run.optimizer]
    return 0 if good and near else 1


if __name__ == "__main__":
    sys.exit(main())
