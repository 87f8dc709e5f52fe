# SPDX-License-Identifier: Apache-2.0
"""Runs side by side, as text."""

from lib.runs import CATEGORIES, first_difference

MIB = 1024 * 1024


def mib(count):
    return f"{count / MIB:.2f}"


def saving(run, baseline):
    """The percentage by which this run holds less than the baseline."""
    part = run.bytes("measured_peak", "total") / baseline.bytes("measured_peak", "total")
    return f"{100 * (1 - part):.1f} %"


def rows(runs):
    """The header and two rows per run: planned and measured."""
    header = ["", "", *CATEGORIES, "total", "saved", "final loss", "tokens/s"]
    body = []
    for run in runs:
        planned, measured = ([mib(run.bytes(kind, c)) for c in (*CATEGORIES, "total")]
                             for kind in ("planned", "measured_peak"))
        body.append([run.label, "planned", *planned, "", "", ""])
        body.append(["", "measured", *measured, saving(run, runs[0]), f"{run.losses[-1]:.9g}",
                     f"{run.settled('tokens_per_s'):,.0f}"])
    return header, body


def claims(runs):
    """(holds, sentence) for each claim about the runs."""
    found = []
    step = first_difference(runs)
    count = len(runs[0].steps)
    if step is None:
        found.append((True, f"The losses of all {count} steps are equal, digit for digit."))
    else:
        seen = ", ".join(f"{run.label} {run.losses[step - 1]:.9g}" for run in runs if step <= len(run.steps))
        found.append((False, f"The losses differ from step {step} on: {seen}."))
    off = [run.label for run in runs if not run.as_planned]
    if off:
        found.append((False, f"Measured memory is not what was planned: {', '.join(off)}."))
    else:
        found.append((True, "Measured memory is what was planned, to the byte, on every rank."))
    return found


def as_text(runs, found):
    """`found`: the claims below the table."""
    header, body = rows(runs)
    widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]

    def line(row):
        cells = [cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    rule = "-" * len(line(header))
    text = ["Memory per rank in MiB (the fullest rank); saved: against " + runs[0].label, rule, line(header), rule]
    text += [line(row) for row in body]
    text.append(rule)
    text += [("" if holds else "FAILED: ") + sentence for holds, sentence in found]
    return "\n".join(text) + "\n"
