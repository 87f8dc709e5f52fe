#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks under the launchers that are here: torchrun, mpiexec of MPICH, srun.

    scripts/check_launchers.py [--build build/dev] [--torchrun PATH] [--mpiexec mpiexec.mpich] [--srun "srun --overlap"]

Runs the program of tests/faults under each and looks at what it prints and returns. A launcher that is not found is shown as
absent. Exit status: 0 if all that is here did what it should, 1 if not, 77 if none is here.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 300  # seconds; for what hangs


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, **environment):
    """Its exit status and all that it printed."""
    done = subprocess.run(command, env={**os.environ, **environment}, text=True, errors="replace", timeout=PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Checks:
    def __init__(self):
        self.failed = False
        self.any = False

    def check(self, name, holds, output):
        self.any = True
        print(f"{'ok    ' if holds else 'FAILED'}  {name}", flush=True)
        if not holds:
            self.failed = True
            print(output, flush=True)


def torchrun_checks(checks, torchrun, program):
    def command(*options, nodes="1", port=None):
        return [torchrun, "--no-python", f"--nnodes={nodes}", "--rdzv-backend=c10d",
                f"--rdzv-endpoint=127.0.0.1:{port or free_port()}", *options]

    status, output = run([*command("--nproc-per-node=3"), program, "fine"])
    checks.check("torchrun: three ranks", status == 0 and output.count("launch has returned.") == 3, output)

    status, output = run([*command("--nproc-per-node=3"), program, "throw"])
    checks.check("torchrun: a rank that throws is named, and ends the job",
                 status != 0 and output.count("[rank 1/3] the data are gone\n") == 1, output)

    # torchrun makes one dollar of two.
    script = ('if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then '
              '[ "$RANK" != 1 ] || (sleep 3; kill -9 $$$$) & exec "$0" steps; fi; exec "$0" fine')
    status, output = run([*command("--nproc-per-node=3", "--max-restarts=1"), "sh", "-c", script, program])
    checks.check("torchrun --max-restarts=1: a rank is killed, and the second attempt is done",
                 status == 0 and output.count("launch has returned.") == 3, output)

    # A second machine joins, which starts all ranks again in a larger world, and is lost again.
    port = free_port()
    script = 'echo world $WORLD_SIZE rank $RANK; exec "$0" until_stopped'
    agent = [*command("--nproc-per-node=2", "--rdzv-id=elastic", "--max-restarts=3", nodes="1:2", port=port),
             "sh", "-c", script, program]
    path = pathlib.Path(f"/tmp/zeroth-launchers-{os.getpid()}")
    agents = []
    try:
        with path.open("w") as log:
            def seen(pattern, times, patience=120):
                end = time.time() + patience
                while time.time() < end:
                    if len(re.findall(pattern, path.read_text(errors="replace"))) >= times:
                        return True
                    time.sleep(0.2)
                return False

            agents.append(subprocess.Popen(agent, stdout=log, stderr=log))
            small = seen("is under way", 2)
            agents.append(subprocess.Popen(agent, stdout=log, stderr=log))
            large = small and seen("world 4 rank", 4) and seen("is under way", 6)
            for each in agents:
                each.send_signal(signal.SIGTERM)
            for each in agents:
                each.wait(PATIENCE)
        checks.check("torchrun --nnodes=1:2: a second machine joins", small and large, path.read_text(errors="replace"))
    finally:
        for each in agents:
            if each.poll() is None:
                each.kill()
        path.unlink(missing_ok=True)


def mpich_checks(checks, mpiexec, program):
    status, output = run([mpiexec, "-n", "3", program, "fine"])
    served = status == 0 and output.count("launch has returned.") == 3
    refused = status != 0 and "MPI sees rank 0 in a world of 1" in output
    checks.check(f"mpiexec of MPICH: {'served' if served else 'refused'}", served or refused, output)
    status, output = run([mpiexec, "-n", "3", program, "fine", "--comm", "tcp"], MASTER_PORT=str(free_port()))
    checks.check("mpiexec of MPICH, over tcp", status == 0 and output.count("launch has returned.") == 3, output)


def srun_checks(checks, srun, program):
    for mpi in ("none", "pmi2"):
        status, output = run([*srun, f"--mpi={mpi}", "-n", "2", program, "fine"])
        served = status == 0 and output.count("launch has returned.") == 2
        refused = status != 0 and "MPI sees rank 0 in a world of 1" in output
        checks.check(f"srun --mpi={mpi}: {'served' if served else 'refused'}", served or (mpi != "none" and refused), output)
    status, output = run([*srun, "--mpi=none", "-n", "2", program, "throw"])
    checks.check("srun: a rank that throws is named", status != 0 and output.count("the data are gone\n") == 1, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--srun", default="srun")
    options = parser.parse_args()
    program = str((pathlib.Path(options.build) / "bin/fault_program").resolve())
    checks = Checks()
    for name, command, function in (("torchrun", options.torchrun.split(), torchrun_checks),
                                    ("mpiexec of MPICH", options.mpiexec.split(), mpich_checks),
                                    ("srun", options.srun.split(), srun_checks)):
        if shutil.which(command[0]) is None:
            print(f"absent  {name}")
            continue
        function(checks, command if name == "srun" else shutil.which(command[0]), program)
    return 1 if checks.failed else 0 if checks.any else 77


if __name__ == "__main__":
    sys.exit(main())
