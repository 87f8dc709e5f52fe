#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time that a killed rank costs under `zeroth run`: from its SIGKILL to the next new step.

    scripts/restart_time.py                        four ranks over tcp, of build/release
    scripts/restart_time.py --ranks 2 --kills 10   other numbers
    scripts/restart_time.py --build build/test     of another build

train_gpt trains a small model and saves after every step. Each rank in turn is killed in the middle of training. A step
is new if its number was not printed before. Exit status: 1 if the job did not resume.
"""

import argparse
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
STEPS_BETWEEN = 20  # steps between a restart and the next kill
STEP = re.compile(r"^step (\d+)/")


def processor():
    found = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    return f"{found.group(1) if found else platform.machine()}, {os.cpu_count()} cores"


def rank_process(launcher, rank):
    """The process id of `launcher`'s child that is `rank`, or none."""
    for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text("ascii").split():
        try:
            environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if f"RANK={rank}".encode() in environment:
            return int(child)
    return None


def command_of(given, folder):
    text = folder / "text"
    text.write_text("".join(f"{i} green bottles hanging on the wall, {i * 7 % 31} of them\n" for i in range(4000)), "utf-8")
    saved = str(folder / "saved")
    return [given.build / "bin/zeroth", "run", "--ranks", str(given.ranks), "--transport", "tcp", "--max-restarts", "3",
            "--checkpoint", saved, "--", given.build / "bin/train_gpt", "--config", REPOSITORY / "configs/zero3.json",
            "--data", text, "--layers", "2", "--heads", "2", "--channels", "64", "--context", "32", "--steps", "1000000",
            "--checkpoint", saved, "--save-every", "1", "--keep", "2", "--resume", "auto"]


def seconds_of_kills(job, ranks, kills):
    """(rank, seconds) of each kill, as soon as they are known."""
    newest, kill_at, killed = 0, STEPS_BETWEEN, None
    number = 0
    for line in job.stdout:
        now = time.monotonic()
        found = STEP.match(line)
        step = int(found.group(1)) if found else 0
        if step <= newest:
            continue
        newest = step
        if killed is not None:
            yield number % ranks, now - killed
            killed, kill_at, number = None, step + STEPS_BETWEEN, number + 1
            if number == kills:
                return
        elif step >= kill_at:
            process = rank_process(job.pid, number % ranks)
            if process is not None:
                killed = time.monotonic()
                os.kill(process, signal.SIGKILL)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/release", help="folder of the build (build/release)")
    parser.add_argument("--ranks", type=int, default=4, help="processes (4)")
    parser.add_argument("--kills", type=int, default=8, help="number of kills (8)")
    given = parser.parse_args(arguments)
    if given.ranks < 1 or given.kills < 1:
        parser.error("--ranks and --kills must be 1 or more")
    for program in ("zeroth", "train_gpt"):
        if not (given.build / "bin" / program).exists():
            print(f"error: {given.build}/bin/{program} is not there", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(command_of(given, pathlib.Path(folder)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as job:
            seconds = []
            for rank, lost in seconds_of_kills(job, given.ranks, given.kills):
                print(f"rank {rank} killed: {lost:.2f} s to the next new step", flush=True)
                seconds.append(lost)
            job.terminate()
            job.stdout.read()
    if len(seconds) < given.kills:
        print(f"error: the job ended with status {job.returncode} after {len(seconds)} of {given.kills} kills", file=sys.stderr)
        return 1
    print(f"{given.ranks} ranks over tcp: {statistics.median(seconds):.2f} s in the median of {len(seconds)}, "
          f"{min(seconds):.2f} to {max(seconds):.2f}; {processor()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
