# SPDX-License-Identifier: Apache-2.0
"""Runs a command, with its output on stderr, and prints the peak of its address space in KiB."""

import pathlib
import re
import resource
import subprocess
import sys
import time

SECONDS_BETWEEN_LOOKS = 0.02


def small_stacks():
    """Limits stacks, as the command will have them under the limit on address space."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (1024 * 1024, hard))


def main(command):
    peak = 0
    with subprocess.Popen(command, stdout=sys.stderr, preexec_fn=small_stacks) as process:
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            found = re.search(r"VmPeak:\s+(\d+) kB", status.read_text(encoding="utf-8"))
            peak = max(peak, int(found.group(1))) if found else peak
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if process.returncode:
        sys.exit(process.returncode)
    print(peak)


if __name__ == "__main__":
    main(sys.argv[1:])
