# SPDX-License-Identifier: Apache-2.0
"""Computes figures from turns of tensor.py, and tables from figures. Needs no PyTorch and no other module."""

import statistics

BASE = "zeroth"
SEQUENCE = "zeroth sequence"
WITHOUT = "zeroth stage 0"
BEFORE = "zeroth stage 0, before"
OVER_MPI = "zeroth over MPI"
DTENSOR, MEGATRON = "dtensor", "megatron"
NAMES = {BASE: "Zeroth", SEQUENCE: "Zeroth, sequence", OVER_MPI: "Zeroth, MPI", WITHOUT: "Zeroth, stage 0", DTENSOR: "DTensor",
         MEGATRON: "Megatron-Core"}
MASKS = "keep, AVX-512"
MIB = 2**20

# (ratio, numerator, denominator, figure). A peer's name stands for its fastest variant, or its leanest if memory is
# compared.
SPEED, MEMORY = "tokens_per_s", "peak_bytes"
RATIOS = (("speed over DTensor", BASE, DTENSOR, SPEED), ("speed over Megatron-Core", BASE, MEGATRON, SPEED),
          ("memory over DTensor", BASE, DTENSOR, MEMORY), ("memory over DTensor, sequence", SEQUENCE, DTENSOR, MEMORY),
          ("speed of sequence over without", SEQUENCE, BASE, SPEED), ("speed over stage 0", BASE, WITHOUT, SPEED),
          ("speed of one tensor rank over before", WITHOUT, BEFORE, SPEED))

# (ratio, its words, {load: bound}, whether it is an upper bound)
AIMS = (("speed over DTensor", "tokens/s over DTensor's fastest", {"L1": 1.5, "L2": 2}, False),
        ("memory over DTensor", "peak memory per rank over DTensor's leanest", {"L1": 0.75, "L2": 0.75}, True),
        ("memory over DTensor, sequence", "the same with sequence parallelism", {"L1": 0.75, "L2": 0.75}, True),
        ("speed of sequence over without", "tokens/s with sequence parallelism over without", {"L1": 0.97, "L2": 0.97}, False),
        ("speed over stage 0", "tokens/s over stage 0 on the same two ranks", {"L1": 0.85}, False),
        ("speed of one tensor rank over before", "tokens/s of stage 0 over those before there were tensor ranks",
         {"L1": 0.99, "L2": 0.99}, False))
MASKS_AIM = 1e9


def variants_of(contender, everyone):
    """The contender itself, or all variants of a peer."""
    return [name for name in everyone if name == contender or (contender in (DTENSOR, MEGATRON) and name.startswith(contender + " "))]


def figures(runs):
    """{contender: {round: {figure: value}}}; memory is that of the rank with most."""
    found = {}
    for run in runs:
        found.setdefault(run["contender"], {})[run["round"]] = {SPEED: run["tokens_per_s"], MEMORY: max(run["peak_bytes"])}
    return found


def median(by_round, figure):
    return statistics.median(each[figure] for each in by_round.values())


def best_of(contender, of, figure):
    """The contender's variant with the best median; None if none ran."""
    choose = max if figure == SPEED else min
    return choose(variants_of(contender, of), key=lambda name: median(of[name], figure), default=None)


def summarise(runs):
    """Records for all loads and precisions: one for each contender, and one for each ratio, which is the median over
    rounds."""
    summary = []
    for load, precision in dict.fromkeys((run["load"], run["precision"]) for run in runs):
        setting = {"load": load, "precision": precision}
        of = figures(run for run in runs if (run["load"], run["precision"]) == (load, precision))
        summary += [{**setting, "contender": name, **{figure: median(by_round, figure) for figure in (SPEED, MEMORY)}}
                    for name, by_round in of.items()]
        for ratio, *both, figure in RATIOS:
            over, under = (best_of(name, of, figure) for name in both)
            rounds = of[over].keys() & of[under].keys() if over and under else ()
            if rounds:
                value = statistics.median(of[over][number][figure] / of[under][number][figure] for number in rounds)
                summary.append({**setting, "ratio": ratio, "under": under, "value": value})
    return summary


def wrong_losses(runs, bounds):
    """Sentences about runs whose losses are not those of Zeroth's tensor ranks. `bounds`: by precision."""
    base = {(run["load"], run["precision"]): run["losses"] for run in runs if run["contender"] == BASE}
    found = []
    for run in runs:
        right = base.get((run["load"], run["precision"]), [])
        far = [step for step, (mine, theirs) in enumerate(zip(run["losses"], right), 1)
               if not abs(mine - theirs) <= bounds[run["precision"]] * abs(theirs)]
        if far or len(run["losses"]) != len(right):
            found.append(f"{run['load']}, {run['precision']}, {run['contender']}: another loss in step {far[0] if far else 1}")
    return found


def settings(summary):
    return list(dict.fromkeys((line["load"], line["precision"]) for line in summary))


def cells(summary, figure):
    """Header and rows: a figure of every contender that ran anywhere. For peers it is that of the best variant, with
    its name."""
    everyone = {line["contender"] for line in summary if "contender" in line}
    columns = [name for name in NAMES if variants_of(name, everyone)]
    rows = []
    for load, precision in settings(summary):
        of = {line["contender"]: {0: line} for line in summary
              if "contender" in line and (line["load"], line["precision"]) == (load, precision)}
        rows.append([precision, load, *(_cell(name, best_of(name, of, figure), of, figure) for name in columns)])
    return ["", "load", *(NAMES[name] for name in columns)], rows


def _cell(contender, best, of, figure):
    if best is None:
        return "did not run"
    value = of[best][0][figure] / (1 if figure == SPEED else MIB)
    told = best[len(contender):].replace(" ", ", ").lstrip(", ")
    return f"{value:,.0f}" + (f" ({told})" if told else "")


def aims(summary, masks):
    """Header and rows: the aims, and the results on each load and precision."""
    columns = settings(summary)
    values = {(line["ratio"], line["load"], line["precision"]): line["value"] for line in summary if "ratio" in line}
    rows = []
    for ratio, words, bounds, is_upper in AIMS:
        told = [_verdict(values.get((ratio, *setting)), bounds.get(setting[0]), is_upper) for setting in columns]
        aim = " and ".join(f"{load} {bound:g}" for load, bound in bounds.items()) if len(set(bounds.values())) > 1 or len(bounds) == 1 \
            else f"{next(iter(bounds.values())):g}"
        rows.append([words, ("at most " if is_upper else "at least ") + aim, *told])
    rate = next((line["values_per_second"] for line in masks if line["case"] == MASKS), None)
    if rate is not None:
        told = f"{rate / 1e9:.2f}" + ("" if rate >= MASKS_AIM else ", missed")
        rows.append(["10^9 values of masks per second and core, by AVX-512", f"at least {MASKS_AIM / 1e9:g}", told, *[""] * (len(columns) - 1)])
    return ["", "aim", *(f"{load} {precision}" for load, precision in columns)], rows


def _verdict(value, bound, is_upper):
    if value is None:
        return "not measured"
    if bound is None:
        return f"{value:.3f}"
    met = value <= bound if is_upper else value >= bound
    return f"{value:.3f}" + ("" if met else ", missed")
