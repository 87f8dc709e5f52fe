#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares simulated step times of parameter servers with those of stage 1 on as many ranks as there are workers.

    scripts/compare_servers.py                                          tables
    scripts/compare_servers.py --document docs/parameter_server.md      writes them into the document
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import markdown  # noqa: E402
from lib.records import ReportError  # noqa: E402

MODEL = ["--parameters", "1e8", "--units", "16", "--context", "1024"]
MACHINE = REPOSITORY / "configs/machines/ten_gigabit.json"
WORKERS = (2, 4, 8, 16, 32, 64)
FEW_SERVERS = (1, 2, 4, 8)
STALENESS = (0, 1, 3)
ONE_IS_SLOW = 2  # times as long as the others


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth")
    parser.add_argument("--document", type=pathlib.Path, help="document whose block \"servers\" gets the tables")
    return parser.parse_args()


def stage_file(stage, samples, servers, staleness):
    zeroth = {"parameter_server": {"servers": servers, "staleness": staleness}} if servers else {}
    return {"train_micro_batch_size_per_gpu": samples, "gradient_clipping": 0,
            "zero_optimization": {"stage": stage, "overlap_comm": True, "reduce_bucket_size": 5e6}, "zeroth": zeroth}


class Simulator:
    def __init__(self, zeroth, folder):
        self.zeroth, self.file = zeroth, pathlib.Path(folder) / "stage.json"

    def step_ms(self, workers, samples, servers=0, staleness=0, options=()):
        """Step time of stage 1 without servers."""
        stage = 0 if servers else 1
        self.file.write_text(json.dumps(stage_file(stage, samples, servers, staleness)), encoding="utf-8")
        done = subprocess.run([self.zeroth, "simulate", *MODEL, "--config", self.file, "--ranks", str(workers + servers),
                               "--machine", MACHINE, "--json", *options], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReportError(f"{self.zeroth} simulate: {done.stderr}")
        return next(each for each in json.loads(done.stdout)["stages"] if each["stage"] == stage)["step_ms"]


def by_servers(simulator, samples):
    """A table of step times with servers over those of stage 1."""
    rows = []
    for workers in WORKERS:
        alone = simulator.step_ms(workers, samples)

        def ratio(servers, workers=workers, alone=alone):
            return f"{simulator.step_ms(workers, samples, servers) / alone:.2f}"

        few = [ratio(servers) if servers <= workers else "" for servers in FEW_SERVERS]
        rows.append((str(workers), f"{alone:.0f}", *few, ratio(workers // 2), ratio(workers)))
    header = ("workers", "stage 1, ms", "1 server", *(str(servers) for servers in FEW_SERVERS[1:]), "W / 2 servers", "W servers")
    return markdown.table(header, rows)


def by_staleness(simulator, samples):
    """A table for eight workers: all alike, then with a slow one among them."""
    workers, rows = 8, []
    slow = ("--slow", f"1={ONE_IS_SLOW}")
    for options, named in (((), "alike"), (slow, f"one takes {ONE_IS_SLOW} times as long for its math")):
        alone = simulator.step_ms(workers, samples, options=options)
        rows.append((named, f"{alone:.0f}", *(f"{simulator.step_ms(workers, samples, servers, staleness, options):.0f}"
                                              for servers in (2, 8) for staleness in STALENESS)))
    header = ("eight workers", "stage 1, ms",
              *(f"{servers} servers, staleness {staleness}" for servers in (2, 8) for staleness in STALENESS))
    return markdown.table(header, rows)


def tables(simulator):
    return ("Simulated step times over those of stage 1 on as many ranks as there are workers, with 8 samples of 1,024 "
            "tokens for each worker:\n\n" + by_servers(simulator, 8) +
            "\nWith one sample, so that a step is hardly more than what it sends:\n\n" + by_servers(simulator, 1) +
            "\nMilliseconds of a step of eight workers, with 8 samples:\n\n" + by_staleness(simulator, 8))


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        try:
            text = tables(Simulator(options.zeroth, folder))
            if options.document:
                document = options.document.read_text(encoding="utf-8")
                options.document.write_text(markdown.replaced(document, "servers", text), encoding="utf-8")
            else:
                print(text, end="")
        except (ReportError, OSError) as error:
            sys.exit(f"compare_servers.py: {error}")


if __name__ == "__main__":
    main()
