# SPDX-License-Identifier: Apache-2.0
"""Compares a run in two parts, the second resumed from a checkpoint of the first, with uninterrupted runs."""

import filecmp
import os
from dataclasses import dataclass

from lib.records import ReportError
from lib.runs import Run, first_difference, read_part, read_run


@dataclass
class Resumed:
    run: Run  # both parts, with the memory of the second
    step: int  # the step after which it resumed
    stages: tuple  # of both parts
    weights_bytes: int
    weights_equal: bool


def read(reports, weights):
    """`reports`: of the first part and of the second. `weights`: the file of an uninterrupted run, and this run's."""
    first, second = read_run("", reports[0]), read_part("", reports[1])
    step = second.begins_behind
    if not 0 < step <= len(first.steps):
        raise ReportError(f"{reports[1]}: goes on behind step {step}, and {reports[0]} has steps 1 to {len(first.steps)}")
    stages = tuple(_stage(part) for part in (first, second))
    run = Run(f"stage {stages[0]}, then {stages[1]}", str(reports[1]), second.facts, first.steps[:step] + second.steps,
              second.memory)
    try:
        return Resumed(run, step, stages, os.path.getsize(weights[1]), filecmp.cmp(*weights, shallow=False))
    except OSError as error:
        raise ReportError(f"{error.filename}: {error.strerror}") from error


def claim(resumed, runs):
    """(holds, sentence)."""
    told = (f"A run that was saved behind step {resumed.step} at stage {resumed.stages[0]} and went on in another process "
            f"at stage {resumed.stages[1]}")
    step = first_difference([runs[0], resumed.run])
    if step is None and resumed.weights_equal:
        return True, (f"{told} is one that never ended: equal losses, digit for digit, and equal weights, all "
                      f"{resumed.weights_bytes:,} bytes.")
    differs = ([f"its losses from step {step} on"] if step else []) + ([] if resumed.weights_equal else ["its weights"])
    return False, f"{told} is not one that never ended: {' and '.join(differs)} differ."


def _stage(part):
    return part.facts.record("config").record("zero_optimization.stage").count("value")
