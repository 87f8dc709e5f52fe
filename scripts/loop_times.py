#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the time that a build and its tests take: per target, source, program and test.

    scripts/loop_times.py                       of build/dev
    scripts/loop_times.py --build build/tsan    of another build
    scripts/loop_times.py --longest 20          longer lists

Compilations and links come from ninja's log, the last one of each output. Seconds are wall time, and several steps run
at the same time on several cores. Tests come from ctest's records, with the last time of each.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import loop_times  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/dev", help="folder of the build (build/dev)")
    parser.add_argument("--longest", type=int, default=10, help="entries of each list (10)")
    given = parser.parse_args(arguments)
    if given.longest < 1:
        parser.error(f"--longest is {given.longest}, and must be 1 or more")
    try:
        steps = loop_times.steps_of(given.build)
        tests = loop_times.tests_of(given.build)
    except loop_times.NoTimes as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(loop_times.as_text(steps, tests, given.longest), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
