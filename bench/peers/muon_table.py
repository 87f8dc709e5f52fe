# SPDX-License-Identifier: Apache-2.0
"""Computes figures and verdicts from turns of muon.py. Needs no PyTorch and no other module."""

import statistics

BASE, DDP, DEEPSPEED = "zeroth", "ddp_muon", "deepspeed_muon"
UPDATE, OWNERS = "zeroth update", "owners update"
# (peer, ratio, aim). Ratios are of tokens/s, or of the peer's milliseconds to Zeroth's.
AIMS = ((DDP, "tokens/s over torch.optim.Muon under DDP", 1.3), (DEEPSPEED, "tokens/s over DeepSpeed's Muon at stage 1", 1.5))
UPDATE_AIM = (OWNERS, "an update with owners and all-to-alls in PyTorch over one of Zeroth", 1.2)
# Directions are rounded to bf16 at different points. DeepSpeed has another learning-rate factor, so its losses are not
# compared.
LOSS_BOUND = 0.01


def by_round(runs, figure):
    """{contender: {round: figure}}"""
    found = {}
    for run in runs:
        found.setdefault(run["contender"], {})[run["round"]] = run[figure]
    return found


def fastest(of, peer):
    """The variant of a peer with the highest median; None if none ran."""
    names = [name for name in of if name.split(" ")[0] == peer]
    return max(names, key=lambda name: statistics.median(of[name].values()), default=None)


def ratio(over, under):
    """The median, minimum and maximum of the ratios in rounds in which both ran."""
    ratios = [over[number] / under[number] for number in over.keys() & under.keys()]
    return {"value": statistics.median(ratios), "range": [min(ratios), max(ratios)]} if ratios else {}


def summarise(runs, updates):
    """A record for each ratio and load."""
    summary = []
    for load, precision in dict.fromkeys((run["load"], run["precision"]) for run in runs):
        of = by_round([run for run in runs if (run["load"], run["precision"]) == (load, precision)], "tokens_per_s")
        for peer, what, aim in AIMS:
            best = fastest(of, peer)
            if best and BASE in of:
                summary.append({"load": load, "precision": precision, "ratio": what, "under": best, "aim": aim,
                                **ratio(of[BASE], of[best])})
    of = by_round(updates, "update_ms")
    if UPDATE in of and OWNERS in of:
        summary.append({"load": "L1", "precision": "fp32", "ratio": UPDATE_AIM[1], "under": OWNERS, "aim": UPDATE_AIM[2],
                        **ratio(of[OWNERS], of[UPDATE])})
    return summary


def verdict(line):
    value, aim = line.get("value"), line["aim"]
    told = "not measured" if value is None else f"{value:.2f}" + ("" if value >= aim else ", missed")
    return f"{line['load']} {line['precision']}: {line['ratio']}: {told} (aim {aim:g})"


def wrong_losses(runs):
    """Sentences about runs of DDP whose losses are not Zeroth's."""
    right = {(run["load"], run["precision"], run["round"]): run["losses"] for run in runs if run["contender"] == BASE}
    found = []
    for run in runs:
        losses = right.get((run["load"], run["precision"], run["round"]))
        if run["contender"].startswith(DDP) and losses is not None:
            far = [step for step, (mine, theirs) in enumerate(zip(run["losses"], losses), 1)
                   if not abs(mine - theirs) <= LOSS_BOUND * abs(theirs)]
            if far or len(run["losses"]) != len(losses):
                found.append(f"{run['load']}, {run['precision']}, {run['contender']}: another loss in step {far[0] if far else 1}")
    return found
