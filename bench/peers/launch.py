# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of one turn and returns their measurements: {"step_ms", "losses", "peak_bytes", ...}."""

import importlib
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from multiprocessing import connection

from loads import IDLE, stage_file

HERE = pathlib.Path(__file__).resolve().parent
PEER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}


class Failure(Exception):
    """A turn failed. The message is the end of its output."""


def last_lines(log, count=12):
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-count:])


def run_program(command, log, limit_s, environment=None):
    """Runs a program in its own session, so that its children end with it."""
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = f"nothing after {limit_s} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if status != 0:
        raise Failure(f"{pathlib.Path(command[0]).name}: {status}\n{last_lines(log)}")


def mpirun():
    """The command that starts a program under MPI, without the number of ranks; empty if there is no mpirun."""
    program = shutil.which("mpirun")
    if program is None:
        return []
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    is_open_mpi = "Open MPI" in version or "OpenRTE" in version
    return [program] + (["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if is_open_mpi else [])


class Zeroth:
    """train_gpt, with ranks as threads or under mpirun. Memory is counted above idle, which is its memory with a tiny
    model."""

    def __init__(self, program, data, folder, limit_s):
        self.program, self.data, self.folder, self.limit_s = program, data, folder, limit_s
        self.idle = {}

    def save_initial(self, load, path, more=()):
        self._run(stage_file(0, load, "fp32"), load, 1, "threads", steps=0, more=["--save-initial", path, *more])

    def turn(self, stage, load, world, precision, launcher, nvme=None):
        return self.turn_of(stage_file(stage, load, precision, nvme), load, world, precision, launcher)

    def turn_of(self, config_text, load, world, precision, launcher):
        setting = world, precision, launcher
        if setting not in self.idle:
            _, self.idle[setting] = self._run(stage_file(3, IDLE, precision), IDLE, world, launcher, steps=IDLE.steps)
        idle = self.idle[setting]
        records, peaks = self._run(config_text, load, world, launcher, steps=load.warmup + load.steps,
                                   more=["--init", self.folder / "initial"])
        steps = [record for record in records if record["record"] == "step"]
        if launcher != "mpi":  # one process: its growth is divided among ranks
            growth_per_rank = [(sum(peaks) - sum(idle)) / world] * world
        else:
            growth_per_rank = [peak - idle for peak, idle in zip(peaks, idle)]
        return {"step_ms": [step["step_ms"] for step in steps], "losses": [step["loss"] for step in steps],
                "peak_bytes": growth_per_rank, "idle_bytes": idle, "math": records[0]["math"]}

    def _run(self, config_text, load, world, launcher, steps, more=()):
        """The records of the report, and each process's peak memory."""
        config, report, peak = (self.folder / name for name in ("stage.json", "report.jsonl", "peak"))
        config.write_text(config_text, encoding="utf-8")
        for old in self.folder.glob("peak.*"):
            old.unlink()
        command = [sys.executable, "-I", "-S", HERE / "with_peak.py", peak, self.program, "--config", config,
                   "--data", self.data, "--steps", steps, "--report", report, "--layers", load.layers, "--heads",
                   load.heads, "--channels", load.channels, "--context", load.context, *more]
        if launcher == "mpi":
            command = [*mpirun(), "-n", world, *command, "--comm", "mpi"]
        else:
            command += ["--ranks", world, "--comm", "local"]
        run_program(command, self.folder / "log", self.limit_s)
        records = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
        peaks = [int(file.read_text()) for file in sorted(self.folder.glob("peak.*"), key=lambda f: int(f.suffix[1:]))]
        return records, peaks


class Peers:
    """train.py. Its ranks are started by torchrun, or forked from one process that has imported PyTorch and DeepSpeed,
    which is much faster."""

    def __init__(self, launcher, data, folder, limit_s):
        self.launcher, self.data, self.folder, self.limit_s = launcher, data, folder, limit_s
        os.environ.update(PEER_ENVIRONMENT)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if launcher == "fork":
            self.context = multiprocessing.get_context("forkserver")
            self.context.set_forkserver_preload(["train", "deepspeed", "torch._dynamo", "torch.optim"])

    def turn(self, peer, variant, load_name, load, world, precision, nvme=None):
        words = ["--peer", peer]
        words += ["--variant", "lean", "--nvme", nvme] if nvme else ["--variant", variant]
        ranks = self.records("train", words, load_name, load, world, precision)
        means = [sum(losses) / world for losses in zip(*(rank["losses"] for rank in ranks))]
        return {"step_ms": ranks[0]["step_ms"], "losses": means, "peak_bytes": [rank["peak_bytes"] for rank in ranks],
                "idle_bytes": [rank["idle_bytes"] for rank in ranks], "bare_bytes": [rank["bare_bytes"] for rank in ranks],
                "versions": ranks[0]["versions"]}

    def records(self, module, words, load_name, load, world, precision):
        """Runs a turn of `module`, and returns the record of each rank. `module`'s own arguments come first."""
        out, log = self.folder / "rank", self.folder / "log"
        for old in self.folder.glob("rank.*"):
            old.unlink()
        words = [*words, "--load", load_name, "--precision", precision, "--steps", load.steps, "--initial",
                 self.folder / "initial", "--data", self.data, "--out", out]
        self.ranks(module, [str(word) for word in words], world, log)
        return [json.loads(pathlib.Path(f"{out}.{rank}.json").read_text(encoding="utf-8")) for rank in range(world)]

    def ranks(self, module, words, world, log):
        """Runs main(words) of `module` on every rank."""
        if self.launcher == "fork":
            self._fork(module, words, world, log)
        else:
            run_program([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", world,
                         HERE / f"{module}.py", *words], log, self.limit_s)

    def _fork(self, module, words, world, log):
        log.write_bytes(b"")
        port = free_port()
        processes = [self.context.Process(target=forked_rank, args=(module, rank, world, port, words, str(log)))
                     for rank in range(world)]
        for process in processes:
            process.start()
        try:
            failed = wait_for(processes, self.limit_s)
        finally:
            for process in processes:
                process.kill()
                process.join()
        if failed:
            raise Failure(f"{failed}\n{last_lines(log)}")


def wait_for(processes, limit_s):
    """The error, or nothing. Stops waiting at the first rank that fails, since others would wait for it."""
    deadline = time.monotonic() + limit_s
    left = {process.sentinel: process for process in processes}
    while left:
        ended = connection.wait(left, max(0.0, deadline - time.monotonic()))
        if not ended:
            return f"nothing after {limit_s} s"
        for sentinel in ended:
            process = left.pop(sentinel)
            process.join()
            if process.exitcode != 0:
                return f"exit status {process.exitcode}"
    return ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def forked_rank(module, rank, world, port, words, log):
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    importlib.import_module(module).main(words)
