#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists lines that run only in tests that a sanitizer leaves out (tests/left_out.cmake).

    scripts/left_out.py            # builds build/coverage and runs the tests: half an hour on two cores
    scripts/left_out.py --lines    # lists every line, not only the number in each file

Lines count if a test executes them in a build without sanitizers, with Clang's source-based coverage. Needs clang-14 and llvm-14.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
SANITIZERS = ("asan", "tsan")
PROGRAMS = ("bin/zeroth", "bin/train_gpt")  # programs that tests start
FOLDERS = ("cuda", "examples", "include", "optim", "src", "tools")


def output(*command, **more):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def tests_of(build):
    """{name: (labels, command)} of every test of a build folder."""
    tests = json.loads(output("ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]
    labels = {test["name"]: next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), []) for test in tests}
    return {test["name"]: (labels[test["name"]], test.get("command", [])) for test in tests}


def run_by(sanitizer):
    """Names of the tests that a preset runs, and of those that it leaves out only by the label left_out."""
    presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
    excluded = next(preset for preset in presets if preset["name"] == sanitizer)["filter"]["exclude"]["label"]
    runs, leaves_out = set(), set()
    for name, (labels, _) in tests_of(ROOT / "build" / sanitizer).items():
        why = {label for label in labels if re.search(excluded, label)}
        if not why:
            runs.add(name)
        elif why == {"left_out"}:
            leaves_out.add(name)
    return runs, leaves_out


def lines_of(name, command):
    """(file, line) of each line that a test executes."""
    with tempfile.TemporaryDirectory() as folder:
        # Profiles of all processes are merged into two files: a test may start thousands of processes.
        environment = {**os.environ, "LLVM_PROFILE_FILE": f"{folder}/%2m.profraw", "ZEROTH_SPARSE_GRIDS": "1"}
        try:
            output("ctest", "--test-dir", BUILD, "-R", f"^{name}$", env=environment)
        except subprocess.CalledProcessError:
            sys.exit(f"error: the test {name} fails in {BUILD}; run it there: ctest --output-on-failure -R '^{name}$'")
        written = [str(path) for path in pathlib.Path(folder).glob("*.profraw")]
        if not written:
            return set()
        output("llvm-profdata-14", "merge", "--failure-mode=all", "-sparse", *written, "-o", f"{folder}/merged")
        built = [str(BUILD / "libzeroth.so"), *(str(BUILD / program) for program in PROGRAMS)]
        built += [word for word in command if word.startswith(f"{BUILD}/bin/") and word not in built]
        objects = [word for path in built[1:] for word in ("-object", path)]
        exported = output("llvm-cov-14", "export", "-format=lcov", "-instr-profile", f"{folder}/merged", built[0], *objects)
    executed, file = set(), None
    for line in exported.splitlines():
        kind, _, value = line.partition(":")
        if kind == "SF":
            file = os.path.relpath(value, ROOT)
        elif kind == "DA" and file.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            number, count = value.split(",")[:2]
            if count != "0":
                executed.add((file, int(number)))
    return executed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="store_true")
    every_line = parser.parse_args().lines
    clang = {"env": {**os.environ, "CXX": "clang++-14"}}
    for sanitizer in SANITIZERS:
        output("cmake", "--preset", sanitizer, **clang)
    output("cmake", "--preset", "asan", "-B", BUILD, "-DZEROTH_LABELS_LEFT_OUT=^(slow|build|ptx)$",
           "-DCMAKE_CXX_FLAGS=-fprofile-instr-generate -fcoverage-mapping", **clang)
    subprocess.run(["cmake", "--build", BUILD], check=True)

    built = tests_of(BUILD)
    tests = {sanitizer: run_by(sanitizer) for sanitizer in SANITIZERS}
    names = sorted(set(built) & set().union(*(runs | leaves_out for runs, leaves_out in tests.values())))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = dict(zip(names, pool.map(lambda name: lines_of(name, built[name][1]), names)))
    for sanitizer, (runs, leaves_out) in tests.items():
        run = set().union(*(lines[name] for name in names if name in runs))
        lost = set().union(*(lines[name] for name in names if name in leaves_out)) - run
        print(f"{sanitizer} leaves out {len(leaves_out)} tests; {len(lost)} of {len(run | lost)} lines run in these alone")
        for file, count in collections.Counter(file for file, _ in lost).most_common():
            print(f"  {file}: " + (", ".join(map(str, sorted(line for of, line in lost if of == file))) if every_line else str(count)))


if __name__ == "__main__":
    main()
