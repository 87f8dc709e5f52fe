# SPDX-License-Identifier: Apache-2.0
"""Slurm with two nodes on this machine, in its own folder: munged, slurmctld, and a slurmd for each node. A node has
its own host name and UTS namespace, so that its tasks see separate machines. Needs root, and Debian's slurm-wlm and
munge."""
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
NODES = ("node1", "node2")
CPUS = 4  # CPUs of each node: more than the machine has


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def missing():
    """The programs that a cluster needs and that are not installed."""
    if os.geteuid() != 0:
        return "root"
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    return ", ".join(each for each in DAEMONS if shutil.which(each, path=path) is None)


def configuration(folder, host, ports):
    controller, *of_nodes = ports
    nodes = "".join(f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} State=UNKNOWN\n"
                    for node, port in zip(NODES, of_nodes))
    return f"""ClusterName=zeroth
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
PropagateResourceLimits=NONE
SchedulerParameters=bf_interval=2,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=60
{nodes}PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=120
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


class Cluster:
    """A cluster that runs within a `with` block. Slurm's commands find it by `environment`."""

    def __init__(self):
        # munge rejects paths with a folder that others may write to.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="zeroth-slurm-", dir="/run"))
        self.processes = []
        self.environment = {**os.environ, "SLURM_CONF": f"{self.folder}/slurm.conf",
                            "PATH": os.environ.get("PATH", "") + ":/usr/sbin"}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for each in reversed(self.processes):
            each.terminate()
        for each in reversed(self.processes):
            try:
                each.wait(20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def spawn(self, *command):
        log = open(self.folder / "daemons.log", "a")
        self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                               stderr=subprocess.STDOUT))

    def start(self):
        folder, host = self.folder, socket.gethostname()
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        (folder / "hosts").write_text(f"127.0.0.1 localhost {host} {' '.join(NODES)}\n")
        (folder / "slurm.conf").write_text(configuration(folder, host, free_ports(1 + len(NODES))))
        self.spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                   f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed")
        self.wait_for("munged", lambda: (folder / "munge.socket").exists())
        self.spawn("slurmctld", "-D")
        for node in NODES:
            (folder / f"spool.{node}").mkdir()
            (folder / f"tmp.{node}").mkdir()
            self.spawn("unshare", "--mount", "--uts", "sh", "-c",
                       f'hostname {node} && mount --bind {folder}/hosts /etc/hosts && exec slurmd -D -N {node}')
        self.wait_for("the nodes", lambda: self.run("sinfo", "-h", "-N", "-o", "%T", "-p", "low")[1].split() ==
                      ["idle"] * len(NODES))

    def wait_for(self, what, holds, patience=90):
        end = time.time() + patience
        while not holds():
            if time.time() > end:
                logs = "\n".join(f"== {each.name}\n{each.read_text(errors='replace')[-2000:]}"
                                 for each in sorted(self.folder.glob("*.log")))
                raise TimeoutError(f"{what} of Slurm did not come within {patience} s\n{logs}")
            time.sleep(0.2)

    def run(self, *command, patience=300, **variables):
        """The exit status and the output."""
        done = subprocess.run(command, env={**self.environment, **variables}, text=True, errors="replace",
                              timeout=patience, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def state_of(self, job):
        return self.run("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T")[1].strip()
