# SPDX-License-Identifier: Apache-2.0
"""affordable_steps.py REPORT --seconds S --most M: prints how many steps like those in REPORT fit into S seconds."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.runs import read_run


def affordable(step_ms, seconds, most, least=2):
    return max(least, min(most, int(seconds * 1000 / step_ms)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--most", type=int, required=True)
    options = parser.parse_args()
    print(affordable(read_run("probe", options.report).settled("step_ms"), options.seconds, options.most))
