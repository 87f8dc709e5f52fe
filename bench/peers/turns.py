# SPDX-License-Identifier: Apache-2.0
"""Runs contenders in turns, and records their results."""

import sys

import launch
from loads import tokens_per_second


def take(record, turn, name, load_name, load, precision, number, micro_steps):
    """Adds the figures of `turn(load_name, load, precision)` to record["runs"], or its error to record["failures"]. A step has
    `micro_steps` micro-batches of the load."""
    key = {"contender": name, "load": load_name, "precision": precision, "round": number}
    try:
        figures = turn(load_name, load, precision)
    except launch.Failure as error:
        record["failures"].append({**key, "error": str(error)})
        print(f"{load_name}, {precision}, round {number}: {name} did not run:\n{error}", file=sys.stderr)
        return
    figures.pop("math", None)
    figures["tokens_per_s"] = tokens_per_second(figures["step_ms"], load, micro_steps)
    record["runs"].append({**key, **figures})
    print(f"{load_name}, {precision}, round {number}: {name}: {figures['tokens_per_s']:,.0f} tokens/s", file=sys.stderr, flush=True)
