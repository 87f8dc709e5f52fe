# SPDX-License-Identifier: Apache-2.0
"""The kernels' tests under compute-sanitizer: accesses out of bounds, and races in shared memory.

    gpu_sanitizer.py --folder FOLDER --programs FOLDER [--seconds N]

Writes FOLDER/sanitizer.jsonl, a line for each tool and program, and what each printed beside it. Without compute-sanitizer nothing is
run, and that is said.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOOLS = ("memcheck", "racecheck")
PROGRAMS = ("test_cuda_kernels_gpu", "test_train_gpt_kernels_gpu")
ERRORS = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards? displayed)")


def errors_in(text):
    """As many as the tool's last line says, or None where it said nothing."""
    found = ERRORS.findall(text)
    return int(found[-1][0] or found[-1][1]) if found else None


def run(sanitizer, tool, program, log, seconds):
    with open(log, "wb") as output:
        try:
            words = [sanitizer, "--tool", tool, "--error-exitcode", "9", str(program)]
            status = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            return None, f"did not end within {seconds:.0f} s"
    errors = errors_in(log.read_text(encoding="utf-8", errors="replace"))
    return errors, "" if status == 0 else f"ended with status {status}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1800)
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/local/cuda/bin"
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print("no compute-sanitizer in PATH or /usr/local/cuda/bin: nothing was run under it")
        return 0
    last = time.monotonic() + options.seconds
    bad = 0
    with open(options.folder / "sanitizer.jsonl", "w", encoding="utf-8") as lines:
        for tool in TOOLS:
            for program in PROGRAMS:
                log = options.folder / f"{tool}_{program}.log"
                left = last - time.monotonic()
                errors, ending = (run(sanitizer, tool, options.programs / "bin" / program, log, left) if left > 0
                                  else (None, "had no time left"))
                line = {"tool": tool, "program": program, "errors": errors, "failed": ending}
                lines.write(json.dumps(line) + "\n")
                lines.flush()
                print(json.dumps(line), flush=True)
                bad += errors != 0 or ending != ""
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
