#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts runs with DeepSpeed and with PyTorch's FSDP2, converts their checkpoints by scripts/convert.py, resumes with
train_gpt, and compares the losses with those of the uninterrupted run. Then converts a checkpoint of train_gpt to DCP.

    python3 -m venv .venv && .venv/bin/pip install torch transformers deepspeed numpy xxhash
    .venv/bin/python scripts/compare_converted.py --train-gpt build/release/bin/train_gpt

Two ranks of a small GPT-2 in fp32, saved after 4 of 8 steps: by DeepSpeed at stages 1, 2 and 3 with AdamW, and by FSDP2
with AdamW and SGD. Exit status: 1 if a loss differs by more than 1e-5 of its value.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
BOUND = 1e-5
STEPS, SAVED_AFTER, RANKS, MICRO, CONTEXT = 8, 4, 2, 2, 16
SHAPE = {"layers": 2, "heads": 2, "channels": 32, "context": CONTEXT}
ADAMW = {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.0}}
SGD = {"type": "SGD", "params": {"lr": 1e-2, "momentum": 0.9}}
RUNS = {"DeepSpeed, stage 1": (1, ADAMW), "DeepSpeed, stage 2": (2, ADAMW), "DeepSpeed, stage 3": (3, ADAMW),
        "FSDP2": (0, ADAMW), "FSDP2, SGD": (0, SGD)}
TEXT = "a small text of some words, and more of them, again and again\n" * 100


def is_fsdp2(run):
    return run.startswith("FSDP2")


def stage_file(stage, optimizer):
    return {"train_batch_size": RANKS * MICRO, "train_micro_batch_size_per_gpu": MICRO, "gradient_clipping": 1.0,
            "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True, "optimizer": optimizer}


# ---- a rank of a peer: this script again, under torchrun ------------------------------------------------------------


def make_model(torch):
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=SHAPE["layers"], n_head=SHAPE["heads"], n_embd=SHAPE["channels"], vocab_size=256,
                                      n_positions=CONTEXT, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def samples(torch, first, count):
    data = torch.tensor(list(TEXT.encode()))
    whole = (len(data) - 1) // CONTEXT
    rows = torch.stack([data[(first + i) % whole * CONTEXT:][:CONTEXT + 1] for i in range(count)])
    return rows[:, :-1], rows[:, 1:]


def loss_of(torch, model, first, count):
    inputs, targets = samples(torch, first, count)
    return torch.nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())


def deepspeed_parts(model, run, folder):
    import deepspeed  # noqa: PLC0415
    stage, optimizer = RUNS[run]
    file = stage_file(stage, json.loads(json.dumps(optimizer)))
    if optimizer["type"] == "AdamW":
        file["optimizer"]["params"]["torch_adam"] = True  # DeepSpeed's own Adam is compiled at its first use
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=file)

    def update(loss):
        engine.backward(loss)
        engine.step()
    return engine, update, lambda: engine.save_checkpoint(str(folder))


def fsdp2_parts(model, torch, run, folder):
    from torch.distributed import checkpoint  # noqa: PLC0415
    from torch.distributed.checkpoint.state_dict import get_state_dict  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (RANKS,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    named = RUNS[run][1]
    optimizer = getattr(torch.optim, named["type"])(model.parameters(), **named["params"])

    def update(loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def save():
        parameters, states = get_state_dict(model, optimizer)
        checkpoint.save({"model": parameters, "optim": states}, checkpoint_id=folder)
    return model, update, save


def run_rank(run, folder):
    import torch  # noqa: PLC0415
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = make_model(torch)
    called, update, save = fsdp2_parts(model, torch, run, folder) if is_fsdp2(run) else deepspeed_parts(model, run, folder)
    for step in range(STEPS):
        loss = loss_of(torch, called, (step * RANKS + rank) * MICRO, MICRO)
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        update(loss)
        if rank == 0:
            print(json.dumps({"step": step + 1, "loss": mean.item() / RANKS}), flush=True)
        if step + 1 == SAVED_AFTER:
            save()


# ---- the comparison -------------------------------------------------------------------------------------------------


def output_of(command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    result = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"compare_converted.py: {' '.join(map(str, command))}\n{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return result.stdout


def peer_losses(run, folder):
    lines = output_of([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", RANKS, HERE, "--rank-of", run,
                       "--folder", folder])
    records = [json.loads(line) for line in lines.splitlines() if line.startswith('{"step"')]
    return {record["step"]: record["loss"] for record in records}


def train_gpt_losses(options, run, folder, *more):
    stage, optimizer = RUNS[run]
    (folder / "stage.json").write_text(json.dumps(stage_file(stage, optimizer)), encoding="utf-8")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    report = folder / "report.jsonl"
    shape = [word for name, value in SHAPE.items() for word in (f"--{name}", value)]
    output_of([options.train_gpt, "--config", folder / "stage.json", "--data", folder / "text.txt", "--ranks", RANKS, *shape,
               "--report", report, *more])
    records = map(json.loads, report.read_text(encoding="utf-8").splitlines())
    return {record["step"]: record["loss"] for record in records if record["record"] == "step"}


def convert(*words):
    output_of([sys.executable, HERE.parent / "convert.py", *words])


def apart(ours, theirs):
    return max(abs(ours[step] - theirs[step]) / theirs[step] for step in ours)


def goes_on(options, run, folder):
    """The largest difference between losses after the conversion and those of the peer."""
    theirs = peer_losses(run, folder / "theirs")
    tied = ["--rename", r"^lm_head\.weight$="]
    if is_fsdp2(run):
        convert("from-dcp", folder / "theirs", folder / "ours", "--step", SAVED_AFTER,
                "--samples", SAVED_AFTER * RANKS * MICRO, *tied)
    else:
        convert("from-deepspeed", folder / "theirs", folder / "ours", *tied)
    ours = train_gpt_losses(options, run, folder, "--resume", folder / "ours", "--steps", STEPS)
    if sorted(ours) != list(range(SAVED_AFTER + 1, STEPS + 1)):
        sys.exit(f"compare_converted.py: {run}: train_gpt took steps {sorted(ours)}")
    return apart(ours, theirs)


def goes_back(options, folder):
    """The difference between the loss of PyTorch's model with our weights and that of train_gpt's next step."""
    import torch  # noqa: PLC0415
    from torch.distributed import checkpoint  # noqa: PLC0415
    run = "DeepSpeed, stage 3"
    train_gpt_losses(options, run, folder, "--checkpoint", folder / "ours", "--steps", SAVED_AFTER)
    ours = train_gpt_losses(options, run, folder, "--resume", folder / "ours", "--steps", SAVED_AFTER + 1)
    convert("to-dcp", folder / "ours", folder / "theirs")
    model = make_model(torch)
    state = {"model": {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}}
    checkpoint.load(state, checkpoint_id=folder / "theirs", no_dist=True)
    model.load_state_dict(state["model"], strict=False)
    model.tie_weights()
    batch = RANKS * MICRO
    return apart(ours, {SAVED_AFTER + 1: loss_of(torch, model, SAVED_AFTER * batch, batch).item()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-gpt", type=pathlib.Path, help="the program")
    parser.add_argument("--rank-of", choices=RUNS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        return run_rank(options.rank_of, options.folder)
    if options.train_gpt is None:
        parser.error("--train-gpt is required")
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        for number, run in enumerate([*RUNS, "to DCP"]):
            folder = pathlib.Path(name) / str(number)
            folder.mkdir()
            difference = goes_on(options, run, folder) if run in RUNS else goes_back(options, folder)
            worst = max(worst, difference)
            print(f"{run}: losses are apart by {difference:.1e} (bound {BOUND:.0e})", flush=True)
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
