# SPDX-License-Identifier: Apache-2.0
"""Computes figures from runs, a table from figures, and whether losses agree. Needs no PyTorch."""

import re
import statistics

BASE = "zeroth3"
UNSHARDED = "zeroth0"
# Both sides round in fp32 but sum in different orders; each Adam update propagates the difference. Seen: 2e-7 after ten
# steps. A wrong weight decay, norm or order of samples differs by more than this in the second step. In bf16 contenders
# round activations and gradients by up to 2^-9 each, at different points (DeepSpeed 3 also rounds a product before it
# adds the bias), and Adam's first updates follow the signs of gradients, however small. Seen in all steps of all loads:
# up to 4.1e-4 between a peer and Zeroth (2.5e-4 without DeepSpeed 3), 6.1e-4 between two peers. The bound is three
# times that. In the second step of every load, DDP differs by at least 9e-3 with twice the learning rate, and by at
# least 2e-2 with its samples in another order or without the residual around attention.
LOSS_BOUNDS = {"fp32": 1e-5, "bf16": 2e-3}


def file_of(maker):
    """The name of the file for measurements on processors of this maker."""
    return "peers_" + re.sub(r"[^a-z0-9]+", "_", maker.lower()) + ".json"


def label(run):
    return run["system"] + {"default": "", "threads": ""}.get(run["variant"], f" {run['variant']}")


def by_setting(runs):
    """{(precision, load, ranks): {label: runs in order of rounds}}, in order of first appearance."""
    found = {}
    for run in runs:
        setting = run["precision"], run["load"], run["ranks"]
        found.setdefault(setting, {}).setdefault(label(run), []).append(run)
    return found


def told(setting):
    precision, load, ranks = setting
    return f"{precision}, {load}, {ranks} ranks"


def own_base(name, contenders):
    """The contender with the same math without sharding: stage 0, or DDP."""
    system, _, variant = name.partition(" ")
    if system.startswith("zeroth"):
        wanted = ["zeroth0" + (" mpi" if variant == "mpi" else "")]
    else:
        wanted = [("ddp " + {"lean": "tuned"}.get(variant, variant)).strip()]
    return next((base for base in wanted if base in contenders), None)


def ratio(contenders, over, under):
    """Median over rounds of one contender's speed over another's of the same round."""
    speeds = {run["round"]: run["tokens_per_s"] for run in contenders[under]}
    ratios = [run["tokens_per_s"] / speeds[run["round"]] for run in contenders[over] if run["round"] in speeds]
    return statistics.median(ratios) if ratios else None


def summarise(runs):
    """One record per precision, load, ranks and contender."""
    summary = []
    for (precision, load, ranks), contenders in by_setting(runs).items():
        for name, own in contenders.items():
            speeds = [run["tokens_per_s"] for run in own]
            base = own_base(name, contenders)
            summary.append({
                "precision": precision, "load": load, "ranks": ranks, "contender": name, "rounds": len(own),
                "tokens_per_s": statistics.median(speeds), "tokens_per_s_range": [min(speeds), max(speeds)],
                **{f"{ours}_is_times_as_fast": ratio(contenders, ours, name) if ours in contenders else None
                   for ours in (UNSHARDED, BASE)},
                "speed_over_unsharded": ratio(contenders, name, base) if base else None,
                "peak_bytes_per_rank": statistics.median(max(run["peak_bytes"]) for run in own),
                "steps": len(own[0]["losses"]), "final_loss": own[0]["losses"][-1],
            })
    return summary


def wrong_losses(runs):
    """Sentences, one for each run whose losses are not those of Zeroth's stage 3: to the last digit for Zeroth, within the
    precision's bound for the peers."""
    problems = []
    for setting, contenders in by_setting(runs).items():
        if BASE not in contenders:
            problems.append(f"{told(setting)}: Zeroth's stage 3 did not run, so no loss was compared")
            continue
        right = contenders[BASE][0]["losses"]
        for name, own in contenders.items():
            bound = 0.0 if name.startswith("zeroth") else LOSS_BOUNDS[setting[0]]
            for run in own:
                problem = difference(run["losses"], right, bound)
                if problem:
                    problems.append(f"{told(setting)}, round {run['round']}, {name}: {problem}")
    return problems


def agreement(precision):
    """The sentence if no loss is wrong."""
    return (f"In {precision} all losses of all steps agree: Zeroth's to the last digit, the peers' within "
            f"{LOSS_BOUNDS[precision]:g}.")


def difference(losses, right, bound):
    if len(losses) != len(right):
        return f"{len(losses)} steps, Zeroth took {len(right)}"
    for step, (a, b) in enumerate(zip(losses, right), start=1):
        if not abs(a - b) <= bound * abs(b):  # also true for NaN
            return f"the loss of step {step} is {a:.9g}, Zeroth's is {b:.9g}; bound: {bound:g} of its value"
    return ""


def number(value, form):
    return "-" if value is None else format(value, form)


def table(summary):
    head = ["", "load", "ranks", "", "tokens/s", "(range over rounds)", "Zeroth 3 is", "of unsharded", "peak MiB/rank",
            "loss"]
    rows = [head]
    for s in summary:
        low, high = s["tokens_per_s_range"]
        rows.append([s["precision"], s["load"], str(s["ranks"]), s["contender"], f"{s['tokens_per_s']:,.0f}",
                     f"{low:,.0f} - {high:,.0f}", number(s["zeroth3_is_times_as_fast"], ".2f") + " x",
                     number(s["speed_over_unsharded"], ".2f"), f"{s['peak_bytes_per_rank'] / 2**20:,.0f}",
                     f"{s['final_loss']:.6f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for previous, row in zip([rows[0], *rows], rows):
        if lines and previous[:3] != row[:3]:
            lines.append("")
        cells = [cell.ljust(width) if column in (0, 1, 3) else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
