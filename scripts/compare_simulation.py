#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares step times of `zeroth simulate` with those that bench_step_time measured.

    scripts/compare_simulation.py                  a table, from docs/measured/step_time.jsonl and configs/machines
    scripts/compare_simulation.py --document docs/simulate.md      writes it into the document
    scripts/compare_simulation.py --fit            first puts into the machine files the rate of math with which one step
                                                   agrees: stage 0, load L1, 2 ranks; half of it where four ranks share it

The machines' other numbers are assumed, or measured by programs that do not train: the machine files say which.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import markdown  # noqa: E402
from lib.records import ReportError, read_lines  # noqa: E402

MACHINES = {2: "two_cores.json", 4: "two_cores_shared.json"}
FITTED_TO = ("L1", 2, 0)
SHARERS = {2: 1, 4: 2}  # ranks on a core
# The model of bench_step_time, whose output states the rest. The number of heads does not change the number of operations.
HEADS, VOCABULARY = 6, 256


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=pathlib.Path, default=REPOSITORY / "docs/measured/step_time.jsonl")
    parser.add_argument("--machines", type=pathlib.Path, default=REPOSITORY / "configs/machines")
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--document", type=pathlib.Path, help="document whose block \"measured\" gets the table")
    return parser.parse_args()


class Simulator:
    def __init__(self, zeroth, machines, folder):
        self.zeroth, self.machines, self.folder = zeroth, machines, folder

    def step(self, run, machine=None):
        """{"step_ms": ..., "exposed_comm_ms": ...} of a measured run."""
        if machine is None and run["ranks"] not in MACHINES:
            raise ReportError(f"no machine is described for {run['ranks']} ranks; there are those of {list(MACHINES)}")
        model, stage_file = self.folder / "config.json", self.folder / "stage.json"
        model.write_text(json.dumps({"model_type": "gpt2", "n_layer": run["layers"], "n_head": HEADS, "n_embd": run["channels"],
                                     "n_positions": run["context"], "vocab_size": VOCABULARY}))
        stage_file.write_text(json.dumps(run["stage_file"]))
        machine = machine or self.machines / MACHINES[run["ranks"]]
        done = subprocess.run([self.zeroth, "simulate", "--model", model, "--config", stage_file, "--ranks",
                               str(run["ranks"]), "--machine", machine, "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReportError(f"{self.zeroth} simulate: {done.stderr}")
        return next(stage for stage in json.loads(done.stdout)["stages"] if stage["stage"] == run["stage"])

    def with_rate(self, run, rate):
        file = self.folder / "machine.json"
        file.write_text(at_rate((self.machines / MACHINES[run["ranks"]]).read_text(encoding="utf-8"), rate), encoding="utf-8")
        return self.step(run, file)["step_ms"]


def at_rate(machine, rate):
    """The text of a machine file with another rate of math."""
    return re.sub(r'("peak_flops_per_s": )[^,]*', rf"\g<1>{rate:.3g}", machine)


def fitted_rate(simulator, run):
    """Step time is a constant plus the time of math; two simulations determine both."""
    slow, fast = 5e10, 1e11
    slow_ms, fast_ms = simulator.with_rate(run, slow), simulator.with_rate(run, fast)
    of_math = (slow_ms - fast_ms) / (1 / slow - 1 / fast)
    constant = fast_ms - of_math / fast
    return of_math / (run["step_ms"] - constant)


def fit(simulator, runs, measured):
    one = [run for run in runs if (run["load"], run["ranks"], run["stage"]) == FITTED_TO]
    if not one:
        raise ReportError(f"{measured}: no line of load {FITTED_TO[0]}, {FITTED_TO[1]} ranks, stage {FITTED_TO[2]}")
    rate = fitted_rate(simulator, one[0])
    for ranks, name in MACHINES.items():
        file = simulator.machines / name
        file.write_text(at_rate(file.read_text(encoding="utf-8"), rate / SHARERS[ranks]), encoding="utf-8")


def table(simulator, runs):
    rows, base, errors, of_ratios = [], {}, [], []
    for run in runs:
        simulated = simulator.step(run)["step_ms"]
        key = run["load"], run["ranks"]
        if run["stage"] == 0:
            base[key] = simulated
        # Ratios are per round, as in the README. Stage 0 is measured twice; its ratio is one over the other.
        ratio, measured_ratio = simulated / base[key], run["ratio_to_stage_0"]
        error = simulated / run["step_ms"] - 1
        fitted = (*key, run["stage"]) == FITTED_TO
        if not fitted:
            errors.append(abs(error))
        if run["stage"] != 0:
            of_ratios.append(abs(ratio / measured_ratio - 1))
        rows.append((f"{markdown.plain(run['load'])}, {run['ranks']}", str(run["stage"]), f"{run['step_ms']:.1f}",
                     f"{simulated:.1f}", "fitted" if fitted else f"{100 * error:+.1f} %", f"{measured_ratio:.3f}",
                     f"{ratio:.3f}"))
    header = ("load, ranks", "stage", "measured ms", "simulated ms", "error", "measured, of stage 0", "simulated, of stage 0")
    return markdown.table(header, rows) + (
        f"\nStep times differ by {100 * sum(errors) / len(errors):.1f} % on average and {100 * max(errors):.1f} % at most; "
        f"ratios to stage 0 by {100 * sum(of_ratios) / len(of_ratios):.1f} % and {100 * max(of_ratios):.1f} %.\n")


def run(options, folder):
    runs = [record.fields for record in read_lines(options.measured)]
    simulator = Simulator(options.zeroth, options.machines, pathlib.Path(folder))
    if options.fit:
        fit(simulator, runs, options.measured)
    if options.document:
        text = options.document.read_text(encoding="utf-8")
        options.document.write_text(markdown.replaced(text, "measured", table(simulator, runs)), encoding="utf-8")
    else:
        print(table(simulator, runs), end="")


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(options, folder)
        except (ReportError, OSError) as error:
            sys.exit(f"compare_simulation.py: {error}")


if __name__ == "__main__":
    main()
