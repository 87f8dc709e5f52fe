# SPDX-License-Identifier: Apache-2.0
"""The tests that need a GPU: which there are, and running them, where CTest need not be.

    gpu_tests.py list --build FOLDER [--label gpu] > FILE
    gpu_tests.py run --folder FOLDER --tests FILE [--total SECONDS] [--seconds EACH]

`run` begins with those that say most, writes FOLDER/tests.xml after each, and what each printed to FOLDER/tests/NAME.log. Tests that
passed before are not run again: after a run that had too little time, another one goes on.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path

SKIPPED = 77  # as tests/support/gpu_main.cpp ends

# What is known least about comes first: machine code and tensor cores, then streams, then the engine on them.
FIRST = ("cuda_kernels_gpu", "train_gpt_kernels_gpu", "cuda_device_gpu", "cuda_memory_gpu", "nccl_memory_gpu", "cuda_steady_gpu",
         "train_gpt_model_gpu", "train_gpt_steps_gpu", "train_gpt_nccl_gpu", "cuda_local_gpu", "cuda_faults_gpu", "cuda_checkpoint_gpu",
         "cuda_parity_gpu", "cuda_offload_gpu")


@dataclass
class Test:
    name: str
    program: str  # relative to the file that lists it
    arguments: list
    environment: dict = field(default_factory=dict)
    seconds: float = 900


def tests_in(listing, build):
    """Those that `ctest --show-only=json-v1` tells of, in the order in which they are run."""
    found = []
    for test in listing["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        program, *arguments = test["command"]
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        found.append(Test(test["name"], os.path.relpath(program, build), arguments, environment, properties.get("TIMEOUT", 900)))
    return sorted(found, key=lambda test: FIRST.index(test.name) if test.name in FIRST else len(FIRST))


def read_tests(path):
    """None where the list could not be made."""
    text = Path(path).read_text()
    return [Test(**test) for test in json.loads(text)] if text.strip() else []


def run_test(test, root, folder, seconds):
    """Its status as CTest's JUnit files have it, how long it took, and what it printed."""
    log = folder / "tests" / f"{test.name}.log"
    begin = time.monotonic()
    with open(log, "wb") as output:
        try:
            words = [str(root / test.program), *test.arguments]
            code = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, env=os.environ | test.environment,
                                  timeout=seconds, check=False).returncode
            said = "" if code in (0, SKIPPED) else f"{test.name} ended with status {code}\n"
        except subprocess.TimeoutExpired:
            code, said = 1, f"{test.name} did not end within {seconds:.0f} s\n"
        except OSError as error:
            code, said = 1, f"{test.name} did not start: {error}\n"
        output.write(said.encode())
    status = {0: "run", SKIPPED: "notrun"}.get(code, "fail")
    return status, time.monotonic() - begin, log.read_text(encoding="utf-8", errors="replace")


def passed_before(path):
    if not path.exists():
        return {}
    cases = xml.etree.ElementTree.parse(path).getroot().iter("testcase")
    return {case.get("name"): case for case in cases if case.get("status") == "run"}


def printable(text):
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def run_tests(folder, listing, total, seconds):
    """How many failed, or had no time."""
    begin = time.monotonic()
    (folder / "tests").mkdir(exist_ok=True)
    results = folder / "tests.xml"
    known = passed_before(results)
    tests = read_tests(listing)
    suite = xml.etree.ElementTree.Element("testsuite")
    suite.extend(known[test.name] for test in tests if test.name in known)
    failed = 0
    for test in tests:
        left = total - (time.monotonic() - begin)
        if test.name in known:
            continue
        if left <= 0:
            print(f"{test.name}: no time left", flush=True)
            failed += 1
            continue
        status, took, said = run_test(test, Path(listing).parent, folder, min(left, seconds, test.seconds))
        failed += status == "fail"
        case = xml.etree.ElementTree.SubElement(suite, "testcase", name=test.name, status=status, time=f"{took:.1f}")
        if status == "notrun":
            xml.etree.ElementTree.SubElement(case, "skipped")
        xml.etree.ElementTree.SubElement(case, "system-out").text = printable(said)
        xml.etree.ElementTree.ElementTree(suite).write(results)
        print(f"{test.name}: {'passed' if status == 'run' else 'skipped' if status == 'notrun' else 'FAILED'}, {took:.1f} s", flush=True)
        if status == "fail":
            print("\n".join(said.splitlines()[-30:]), flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["list", "run"])
    parser.add_argument("--build", type=Path)
    parser.add_argument("--label", default="gpu")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tests", type=Path)
    parser.add_argument("--total", type=float, default=3600)
    parser.add_argument("--seconds", type=float, default=900)
    options = parser.parse_args()
    if options.what == "list":
        words = ["ctest", "--test-dir", str(options.build), "-L", f"^{options.label}$", "--show-only=json-v1"]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            print(f"error: {' '.join(words)} ended with status {done.returncode}", file=sys.stderr)
            return 1
        listing = json.loads(done.stdout)
        print(json.dumps([asdict(test) for test in tests_in(listing, options.build.resolve())], indent=2))
        return 0
    return 1 if run_tests(options.folder, options.tests, options.total, options.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
