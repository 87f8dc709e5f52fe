#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: random mistakes in sources that decide bits and order, each built and run against the tests that
reach it.

    scripts/mutate.py --seed 1 --number 20                  twenty mutants
    scripts/mutate.py --only src/shard --number 50          of one folder or file
    scripts/mutate.py --again                               the mutants that survived last time
    scripts/mutate.py --list --number 5                     lists mutants without trying them

A mutant changes an operator, a constant or the order of arguments of one line, or removes its statement. It is caught
if a test fails or times out; it survives if all pass. Results are appended to build/mutants/results.jsonl, one per
line.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import mutants, mutation

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "build/mutants"
RESULTS = FOLDER / "results.jsonl"


def all_mutants(only):
    files = sorted({path for pattern in mutants.SOURCES for path in REPOSITORY.glob(pattern)})
    names = [file.relative_to(REPOSITORY).as_posix() for file in files]
    wanted = [name for name in names if only is None or name == only or name.startswith(only.rstrip("/") + "/")]
    if not wanted:
        raise SystemExit(f"error: --only {only}: no such file among those that are mutated, which are "
                         f"{', '.join(mutants.SOURCES)}")
    return [mutant for name in wanted for mutant in mutants.mutants_of(name, (REPOSITORY / name).read_text("utf-8"))]


def survivors(path):
    """The mutants whose last result is that they survived."""
    last = {}
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            last[mutants.Mutant(**record["mutant"])] = record["outcome"]
    return [mutant for mutant, outcome in last.items() if outcome == "survived"]


def described(mutant):
    return f"{mutant.path}:{mutant.line} ({mutant.kind})\n  - {mutant.before.strip()}\n  + {mutant.after.strip()}"


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice (1)")
    parser.add_argument("--number", type=int, default=20, help="of mutants (20)")
    parser.add_argument("--only", metavar="PATH", help="a folder or a file of the repository")
    parser.add_argument("--again", action="store_true", help="mutants that survived, instead of random ones")
    parser.add_argument("--list", action="store_true", help="print them, and try none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the build (as many as processors)")
    parser.add_argument("--timeout", type=int, default=300, help="seconds that a test may take (300)")
    return parser.parse_args(arguments)


def main(arguments):
    given = parsed(arguments)
    chosen = survivors(RESULTS) if given.again else mutants.chosen(all_mutants(given.only), given.seed, given.number)
    if given.list:
        print("\n".join(map(described, chosen)))
        return 0
    copy = mutation.Copy(REPOSITORY, FOLDER, given.jobs, given.timeout)
    counts = collections.Counter()
    try:
        copy.update()
        for mutant in chosen:
            outcome, test = copy.outcome_of(mutant)
            counts[outcome] += 1
            print(f"{outcome}{f' by {test}' if test else ''}: {described(mutant)}", flush=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"outcome": outcome, "test": test, "mutant": dataclasses.asdict(mutant)}) + "\n")
    except (mutation.Broken, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in mutation.OUTCOMES))
    return 1 if counts["survived"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
