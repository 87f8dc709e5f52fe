# SPDX-License-Identifier: Apache-2.0
"""Computes medians of checkpoint.py's turns, and the cells of a table. Needs no PyTorch."""

import statistics

NAMES = {"zeroth": "Zeroth 3", "dcp": "PyTorch DCP, FSDP2", "deepspeed": "DeepSpeed 3"}
# {figure: its yardstick in the same turn}, and the headers of the ratios.
RATIOS = {"save": "raw_write", "async_save_blocks": "memcpy", "convert": "raw_write", "load": "raw_read",
          "load_other": "raw_read_other"}
HEADS = {"save": "save over raw writes", "async_save_blocks": "call of a save beside training, over a memcpy",
         "convert": "conversion over raw writes", "load": "load over raw reads", "load_other": "load at 2 ranks over raw reads",
         "memory": "memory that a save beside training takes, MB per rank"}


def summarise(runs):
    """Medians of the seconds, and of the ratios of each turn."""
    summary = []
    for system in dict.fromkeys(run["system"] for run in runs):
        own = [run for run in runs if run["system"] == system]
        found = {"system": system, "rounds": len(own)}
        for name, yardstick in RATIOS.items():
            both = [run for run in own if name in run and yardstick in run]
            if both:
                found[name] = {"seconds": statistics.median(run[name] for run in both),
                               "ratio": statistics.median(run[name] / run[yardstick] for run in both)}
        grown = [run["async_save_bytes"] for run in own if "async_save_bytes" in run]
        if grown:
            found["memory"] = {"bytes": max(grown)}
        summary.append(found)
    return summary


def cells(summary):
    """(header, rows) of text: ratios, and seconds in brackets."""
    columns = [*RATIOS, "memory"]
    order = list(NAMES)
    found = sorted(summary, key=lambda entry: order.index(entry["system"]))
    return ["", *(HEADS[name] for name in columns)], [
        [NAMES[entry["system"]], *(_cell(entry, name) for name in columns)] for entry in found]


def _cell(entry, name):
    if name not in entry:
        return "-"
    if name == "memory":
        return f"{entry[name]['bytes'] / 1e6:,.0f}"
    return f"{entry[name]['ratio']:.2f} ({entry[name]['seconds']:.2g} s)"
