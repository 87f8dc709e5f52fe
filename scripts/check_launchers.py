#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ranks under the launchers that are installed: torchrun, mpiexec of MPICH, Slurm.

    scripts/check_launchers.py [--build build/dev] [--torchrun PATH] [--mpiexec mpiexec.mpich] [--only PART,...]

Parts: torchrun, mpich, slurm, preemption. Runs the program of tests/faults, and train_gpt, under each, and checks their
output and exit status. Starts Slurm for that, with two nodes on this machine. This needs root and the daemons of Slurm
and munge (Debian's slurm-wlm). A launcher that is not found is shown as absent. Exit status: 0 if all checks of the
installed launchers passed, 1 if not, 77 if no launcher is installed.
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
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import slurm_cluster  # noqa: E402

PATIENCE = 300  # seconds after which a program counts as hung


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(command, **environment):
    """Runs a program; returns its exit status and output."""
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

    # torchrun replaces two dollars by one.
    script = ('if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then '
              '[ "$RANK" != 1 ] || (sleep 3; kill -9 $$$$) & exec "$0" steps; fi; exec "$0" fine')
    status, output = run([*command("--nproc-per-node=3", "--max-restarts=1"), "sh", "-c", script, program])
    checks.check("torchrun --max-restarts=1: a rank is killed, and the second attempt is done",
                 status == 0 and output.count("launch has returned.") == 3, output)

    # A second machine joins, which restarts all ranks in a larger world, and then fails.
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

            # Otherwise PyTorch 2.15 keeps the first round's store, of which an agent that joins later is not told.
            own_store = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
            agents.append(subprocess.Popen(agent, stdout=log, stderr=log, env=own_store))
            small = seen("is under way", 2)
            agents.append(subprocess.Popen(agent, stdout=log, stderr=log, env=own_store))
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


def slurm_checks(checks, bin_folder, folder):
    with slurm_cluster.Cluster() as cluster:
        srun_checks(checks, cluster, str(bin_folder / "fault_program"))
        batch_checks(checks, cluster, str(bin_folder / "fault_program"), folder)


def preemption_checks(checks, bin_folder, folder):
    with slurm_cluster.Cluster() as cluster:
        preemption_check(checks, cluster, bin_folder, folder)


RETURNED = "launch has returned."


def srun_checks(checks, cluster, program):
    def srun(*options):
        return cluster.run("srun", "--time=5", *options)

    status, output = srun("--mpi=none", "-N", "2", "-n", "3", "sh", "-c", "env | grep -E '^(SLURM|PMI)' | sort")
    print("        " + "\n        ".join(line for line in output.splitlines() if re.match(
        r"SLURM_(PROCID|LOCALID|NODEID|NTASKS|NPROCS|STEP_NUM_TASKS|STEP_NODELIST|JOB_NODELIST|NODELIST|JOB_ID|STEP_ID|RESTART)|PMI", line)))

    status, output = srun("--mpi=none", "-N", "2", "-n", "3", program, "fine")
    checks.check("srun --mpi=none: three ranks on node[1-2]", status == 0 and output.count(RETURNED) == 3, output)
    for mpi in ("pmi2", "pmix"):
        status, output = srun(f"--mpi={mpi}", "-N", "2", "-n", "3", program, "fine", "--comm", "mpi")
        served = status == 0 and output.count(RETURNED) == 3
        # The error is Zeroth's, or that of an MPI without support for this launcher.
        refused = status != 0 and ("MPI sees rank 0 in a world of 1" in output or "was not built with SLURM's PMI" in output)
        checks.check(f"srun --mpi={mpi}: {'served' if served else 'refused'}", served or refused, output)
        status, output = srun(f"--mpi={mpi}", "-N", "2", "-n", "3", program, "fine", "--comm", "tcp")
        checks.check(f"srun --mpi={mpi}, over tcp", status == 0 and output.count(RETURNED) == 3, output)
    status, output = srun("--mpi=none", "-N", "2", "-n", "3", program, "throw")
    checks.check("srun: a rank that throws is named once, and ends the job",
                 status != 0 and output.count("the data are gone\n") == 1, output)
    script = '[ "$SLURM_PROCID" != 1 ] || (sleep 4; kill -9 $$) & exec "$0" steps --grace 1000'
    status, output = srun("--mpi=none", "-N", "2", "-n", "3", "sh", "-c", script, program)
    checks.check("srun: a rank that is killed is named, and ends the job",
                 status != 0 and "rank 1 on node" in output and "ended without leaving the job" in output, output)


def batch_checks(checks, cluster, program, folder):
    """Steps smaller than their job, one after another and at the same time; and the script itself, which is not a
    rank."""
    out = folder / "steps.out"
    script = folder / "steps.sh"
    script.write_text(f"""#!/bin/bash
"{program}" fine --ranks 2 && echo "script $?"
srun --mpi=none -n 2 "{program}" fine; echo "two $?"
srun --mpi=none -n 4 "{program}" fine; echo "four $?"
srun --mpi=none -N 1 -n 2 -w node2 "{program}" fine; echo "second $?"
srun --mpi=none --exact -N 1 -n 1 "{program}" fine & srun --mpi=none --exact -N 1 -n 2 "{program}" fine & wait
""")
    status, output = cluster.run("sbatch", "--wait", "-N", "2", "--ntasks-per-node=2", "--time=5", "-o", str(out), str(script))
    printed = out.read_text(errors="replace") if out.exists() else output
    said = all(f"{which} 0" in printed for which in ("script", "two", "four", "second"))
    checks.check("sbatch: steps smaller than the job, side by side, and a script that is no rank",
                 status == 0 and said and printed.count(RETURNED) == 1 + 2 + 4 + 2 + 3, output + printed)


def preemption_check(checks, cluster, bin_folder, folder):
    """A job of higher priority takes the nodes: SIGTERM, a checkpoint, status 75, the queue again, and a resumed
    run."""
    text = folder / "text"
    text.write_text("".join(f"{i} green bottles hanging on the wall, {i * 7 % 31} of them\n" for i in range(4000)))
    config = pathlib.Path(__file__).resolve().parents[1] / "configs/zero3.json"
    train = (f'"{bin_folder}/train_gpt" --config "{config}" --data "{text}" --layers 2 --heads 2 --channels 64 --context 32 '
             "--order shuffled --steps 1500")
    status, output = run(["sh", "-c", f'{train} --ranks 3 --save-final "{folder}/straight"'])
    if status != 0:
        return checks.check("train_gpt by itself", False, output)
    out = folder / "preempted.out"
    script = folder / "preempted.sh"
    script.write_text(f"""#!/bin/bash
#SBATCH --requeue --open-mode=append
srun --mpi=none {train} --checkpoint "{folder}/saved" --resume auto --save-final "{folder}/preempted"
status=$?
echo "attempt ${{SLURM_RESTART_COUNT:-0}} ended with $status"
[ $status -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
""")
    _, said = cluster.run("sbatch", "--parsable", "-p", "low", "-N", "2", "-n", "3", "--time=20", "-o", str(out), str(script))
    job = said.strip()

    def await_text(pattern, patience=180):
        end = time.time() + patience
        while time.time() < end:
            printed = out.read_text(errors="replace") if out.exists() else ""
            if re.search(pattern, printed):
                return True
            time.sleep(0.2)
        return False

    under_way = await_text(r"(?m)^step +[0-9]{2,}/", patience=60)
    cluster.run("sbatch", "-p", "high", "-N", "2", "--exclusive", "--time=5", "--wrap", "sleep 2", "-o", "/dev/null")
    stopped = under_way and await_text(r"attempt 0 ended with 75", patience=60)
    # Slurm holds a requeued job back for two minutes.
    done = stopped and await_text(r"attempt [1-9][0-9]* ended with 0", patience=300)
    printed = out.read_text(errors="replace") if out.exists() else ""
    weights = [folder / each / "model.safetensors" for each in ("straight", "preempted")]
    same = all(each.exists() for each in weights) and weights[0].read_bytes() == weights[1].read_bytes()
    checks.check("sbatch: preempted, saved with status 75, and put back into the queue: the weights of a run by itself",
                 under_way and stopped and done and same,
                 f"job {job}, under way: {under_way}, 75: {stopped}, done: {done}, same weights: {same}\n{printed[-6000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--only", default="torchrun,mpich,slurm,preemption")
    options = parser.parse_args()
    bin_folder = (pathlib.Path(options.build) / "bin").resolve()
    program = str(bin_folder / "fault_program")
    if not os.path.exists(program):
        parser.error(f"--build {options.build} has no bin/fault_program: build it, or name another folder")
    checks = Checks()
    torchrun, mpiexec = (path and os.path.abspath(path) for path in map(shutil.which, (options.torchrun, options.mpiexec)))
    only = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="zeroth-launchers-") as folder:
        os.chdir(folder)  # where failing ranks write their records
        for key, name, missing, function in (
                ("torchrun", "torchrun", "" if torchrun else options.torchrun, lambda: torchrun_checks(checks, torchrun, program)),
                ("mpich", "mpiexec of MPICH", "" if mpiexec else options.mpiexec, lambda: mpich_checks(checks, mpiexec, program)),
                ("slurm", "Slurm", slurm_cluster.missing(), lambda: slurm_checks(checks, bin_folder, pathlib.Path(folder))),
                ("preemption", "preemption by Slurm", slurm_cluster.missing(),
                 lambda: preemption_checks(checks, bin_folder, pathlib.Path(folder)))):
            if key not in only:
                continue
            if missing:
                print(f"absent  {name}: no {missing}")
            else:
                function()
        os.chdir("/")
    return 1 if checks.failed else 0 if checks.any else 77


if __name__ == "__main__":
    sys.exit(main())
