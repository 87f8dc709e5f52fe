#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs random jobs on all cores, and compares each with stage 0 in memory.

    scripts/random_jobs.py --minutes 10            of build/test
    scripts/random_jobs.py --minutes 10 --pairs    prefers pairs of values that have not met, and lists those left
    scripts/random_jobs.py --build build/asan      of another build

Every process has its own seed. A job that fails is printed with its seed: test_jobs --only SEED runs it again.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
APART = 10**9  # distance between the seeds of two processes, so that they draw different jobs


def started(program, given, number, first):
    command = [program, "--minutes", str(given.minutes), "--seed", str(first + number * APART)]
    if given.pairs:
        command.append("--pairs")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def numbers_of(text):
    """The numbers of jobs that were tried, refused as documented, and failed; None if the process did not finish."""
    found = re.search(r"^(\d+) jobs, (\d+) refused as documented, (\d+) failed$", text, re.MULTILINE)
    return tuple(int(number) for number in found.groups()) if found else None


def pairs_of(text):
    """The number of possible pairs, and the pairs that have not met."""
    found = re.search(r"^\d+ of (\d+) pairs of values have met; missing:\n((?:  .*\n)*)", text, re.MULTILINE)
    return (int(found.group(1)), set(found.group(2).splitlines())) if found else (0, set())


def failures_of(text):
    return re.findall(r"^FAILED: job .*?^again: .*?\n", text, re.MULTILINE | re.DOTALL)


def print_pairs(outputs):
    possible = max(pairs_of(text)[0] for text in outputs)
    missing = set.intersection(*(pairs_of(text)[1] for text in outputs))
    print(f"{possible - len(missing)} of {possible} pairs of values have met; missing:")
    for pair in sorted(missing):
        print(pair)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="how long to draw (1)")
    parser.add_argument("--pairs", action="store_true", help="prefer pairs of values that have not met, and list those left")
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/test", help="folder of the build (build/test)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at once (as many as cores)")
    given = parser.parse_args(arguments)
    if given.minutes <= 0 or given.processes < 1:
        parser.error("--minutes and --processes must be above 0")
    program = given.build / "bin/test_jobs"
    if not program.exists():
        print(f"error: {program} is not there; cmake --build {given.build} --target test_jobs makes it", file=sys.stderr)
        return 2
    first = int(time.time() * 1000) % (APART // 2)
    outputs = [process.communicate()[0] for process in [started(program, given, n, first) for n in range(given.processes)]]
    counts = [numbers_of(text) for text in outputs]
    for text, count in zip(outputs, counts):
        print("".join(failures_of(text)) if count else text, end="")
    ended = [count for count in counts if count]
    tried, refused, failed = (sum(column) for column in zip(*ended)) if ended else (0, 0, 0)
    lost = len(counts) - len(ended)
    print(f"{tried} jobs, {refused} refused as documented, {failed} failed, {lost} of {len(counts)} processes did not end")
    if given.pairs and not lost:
        print_pairs(outputs)
    return 1 if failed or lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
