# SPDX-License-Identifier: Apache-2.0
"""What one GPU did: scripts/gpu_check.sh's figures, and PyTorch's on the same GPU (bench/peers/gpu.py)."""

from html import escape

from lib import markdown, page
from lib.records import read_document, read_lines

NAME, TITLE = "gpu", "On a GPU"
SOURCES = ("gpu.json", "gpu_peers.jsonl")
PICTURES = ()
GIB = 2**30


def read(folder):
    check = read_document(folder / "gpu.json")
    if "rehearsal" in check:
        check.fail(f"is a rehearsal {check.text('rehearsal')}; it must be a check of a GPU")
    return check.fields, [record.fields for record in read_lines(folder / "gpu_peers.jsonl")]


def claims(data):
    check, _ = data
    return [(not check["problems"], f"On {check['gpus'][0]['name']} everything that scripts/gpu_check.sh asks for holds: tests, aims, memory as "
                                    "planned, and stages over `local` with the same losses, digit for digit.")]


def pictures(_):
    return {}


def as_markdown(data, _):
    parts = [markdown.plain(_words(data)) + "\n", markdown.table(*_peers(data)), markdown.table(*_training(data)), markdown.table(*_adamw(data)),
             markdown.table(*_layers(data))]
    return "\n".join(parts)


def as_html(data):
    tables = (_peers(data), _training(data), _adamw(data), _layers(data))
    return page.note(escape(_words(data), quote=False)) + "".join(page.table(*each) for each in tables)


def _words(data):
    check, _ = data
    gpu, tests = check["gpus"][0], check["tests"]
    problems = "; ".join(check["problems"])
    return (f"{gpu['name']}, driver {gpu['driver']}, commit {check['commit']}: {len(tests['passed'])} tests that need a GPU passed, "
            f"{len(tests['failed'])} failed, {len(tests['for more GPUs'])} need more than one. GPT-2 in bf16 with fp32 masters, "
            f"context 1,024, by scripts/gpu_check.sh. " + (f"Problems: {problems}." if problems else "All aims were met."))


def _peers(data):
    """The same model and micro-batch by each; ours is the case without sharing and offload."""
    check, peers = data
    rows = []
    for model in ("1.5B", "124M"):
        ours = next((t for t in check["training"] if t["name"] == f"{model}_stage0_1" and "failed" not in t), None)
        if ours is None:
            continue
        rows.append([f"{model}, micro-batch {ours['micro_batch']}", "Zeroth, train_gpt", f"{ours['tokens_per_s']:,.0f}", "", f"{ours['mfu']:.3f}"])
        for peer in peers:
            if peer["model"] == model:
                compiled = ", torch.compile for each block" if peer["compiled"] else ""
                rows.append([f"{model}, micro-batch {peer['micro_batch']}", f"PyTorch {peer['torch'].split('+')[0]} {peer['peer'].upper()}{compiled}",
                             f"{peer['tokens_per_s']:,.0f}", f"{ours['tokens_per_s'] / peer['tokens_per_s']:.2f} x",
                             f"{ours['mfu'] * peer['tokens_per_s'] / ours['tokens_per_s']:.3f}"])
    return ["GPT-2", "", "tokens/s", "Zeroth over it", "MFU"], rows


def _training(data):
    check, _ = data
    rows = []
    for t in check["training"]:
        if "failed" in t:
            rows.append([t["model"], str(t["stage"]), markdown.plain(f"failed: {t['failed']}"), "", "", "", ""])
            continue
        states = {"": "", "device": "in the host's memory, updated by the GPU", "host": "in the host's memory, updated there"}[t["offload"]]
        ranks = f"{t['ranks']}, {'NCCL' if t['nccl'] else 'threads'}"
        model = t["model"] + (", fastest algorithms of cuBLASLt" if t.get("algorithms") else "")
        model += ", launched as graphs" if t.get("step_graph") else ""
        rows.append([model, str(t["stage"]), ranks, states, f"{t['step_ms']:.1f}", f"{t['tokens_per_s']:,.0f}", f"{t['planned_bytes'] / GIB:.2f}"])
    return ["GPT-2", "stage", "ranks on it", "states", "step ms", "tokens/s", "GiB planned and measured"], rows


def _adamw(data):
    rows = [[a["gradient"], a["parameter"], f"{a.get('master', 'fp32')}, {a.get('moments', 'fp32')}", f"{a['gb_per_s']:,.0f}", f"{a['ratio']:.3f}"]
            for a in data[0]["adamw"]]
    return ["AdamW: gradient", "parameter", "master, moments", "GB/s", "of a copy"], rows


def _layers(data):
    layers = data[0]["layers"]
    every = sum(layer["us_of_all"] for layer in layers if layer["what"] != "all")
    rows = [[layer["what"], str(layer.get("times", 1)), f"{layer.get('us', layer['us_of_all']):.1f}",
             *(f"{layer[key]:,.0f}" if key in layer else "" for key in ("tflop_per_s", "gb_per_s")), f"{layer['us_of_all'] / every:.3f}"]
            for layer in layers]
    return ["layer of 1.5B", "of a micro-step", "us each", "TFLOP/s", "GB/s", "of all"], rows
