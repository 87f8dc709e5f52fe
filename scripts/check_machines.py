#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ranks on separate machines (scripts/machines.sh), whose network is slow, loses frames, or is cut.

    scripts/check_machines.py [--build build/dev] [--only stages,slow,faults,mpi]

stages   stages 0 to 3 of train_gpt on 2 and 3 machines have the weights of threads
slow     the same at stages 0 and 3 with 100 Mbit/s, 20 ms each way and 1 % of frames lost
faults   a link that is cut and healed in time changes no bit; cut for longer, cut one way for all or between two, or a machine
         that vanishes: every rank that is left ends within the timeout and some seconds, and names the machine at fault first
mpi      Open MPI across machines: weights of threads
simulate prints step times of 2 machines at 200 Mbit/s beside those of zeroth simulate, which is given the links that
         bench_collectives measures there and the rate of math of one rank by itself; not among those that run unless asked for

Exit status: 0 if all held, 1 if not, 77 where network namespaces are not allowed.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
MACHINES = REPOSITORY / "scripts/machines.sh"
PATIENCE = 540  # seconds after which a program counts as hung
HEARTBEAT = 10  # timeout in seconds for a silent rank
SLACK = 12  # seconds for a rank to be notified, write its record and exit, on a busy machine


class Checks:
    def __init__(self, build, folder):
        self.bin, self.folder, self.failed, self.weights = (build / "bin").resolve(), folder, False, {}

    def check(self, name, holds, output):
        print(f"{'ok    ' if holds else 'FAILED'}  {name}", flush=True)
        if not holds:
            self.failed = True
            print(output[-6000:], flush=True)

    def train(self, stage, name, steps):
        text = self.folder / "text"
        if not text.exists():
            text.write_text("".join(f"{i} green bottles hanging on the wall, {i * 7 % 31} of them\n" for i in range(4000)))
        return [str(self.bin / "train_gpt"), "--config", str(REPOSITORY / f"configs/zero{stage}.json"), "--data", str(text),
                "--layers", "2", "--heads", "2", "--channels", "64", "--context", "32", "--steps", str(steps), "--save-final",
                str(self.folder / name)]

    def weights_of(self, name):
        return (self.folder / name / "model.safetensors").read_bytes()

    def of_threads(self, ranks, stage, steps):
        key = (ranks, steps)  # equal at every stage
        if key not in self.weights:
            name = f"threads-{ranks}-{steps}"
            done = run([*self.train(stage, name, steps), "--ranks", str(ranks)])
            if done.returncode != 0:
                sys.exit(done.stdout)
            self.weights[key] = self.weights_of(name)
        return self.weights[key]

    def same(self, what, ranks, stage, steps, *options):
        name = re.sub(r"\W+", "-", what)
        done = run([MACHINES, ranks, *options, "--", *self.train(stage, name, steps)])
        holds = done.returncode == 0 and self.weights_of(name) == self.of_threads(ranks, stage, steps)
        self.check(what, holds, done.stdout)
        return done.stdout


def run(command, folder=None):
    done = subprocess.run([str(each) for each in command], cwd=folder, text=True, errors="replace", timeout=PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 77:
        print("no network namespaces here: skipped")
        sys.exit(77)
    return done


def stages(checks):
    for machines in (2, 3):
        for stage in range(4):
            checks.same(f"stage {stage} on {machines} machines", machines, stage, 12)


def slow(checks):
    for stage in (0, 3):
        checks.same(f"stage {stage} on 3 machines, 100 Mbit/s, 20 ms, 1 % lost", 3, stage, 4,
                    "--rate", 100, "--delay", 20, "--loss", 1)


def of_rank_0():
    """Patterns of the first message of machines 0 to 2 if machine 0 is unreachable. Rank 0 reports that the others send
    nothing, or receive nothing from it. The others report that they receive nothing from rank 0, or repeat rank 0's
    message."""
    told = (r"ranks 1 and 2 (have sent nothing for|receive nothing from rank 0 on machine0)|"
            r"rank [12] on machine[12] has sent nothing for")
    return {0: told, **{each: rf"{told}|rank {each} on machine{each} receives nothing from rank 0 \(" for each in (1, 2)}}


def of_rank_1():
    """Such patterns if machine 1 is unreachable."""
    told = "rank 1 on machine1 has sent nothing for"
    return {0: told, 1: rf"{told}|rank 1 on machine1 receives nothing from rank 0 \(", 2: told}


def fault(checks, what, options, said, arguments=(), patience=HEARTBEAT):
    """Each machine in `said` ends in time, and its first message matches."""
    done = run([MACHINES, 3, *options, "--", checks.bin / "fault_program", "steps", "--grace", "1000", *arguments], checks.folder)
    began = re.search(r"machine \d+: (?:cut|deafen|mute|vanish) after ([0-9.]+) s", done.stdout)
    ends = {int(each): float(at) for each, at in re.findall(r"machine (\d+): status [1-9]\d* after ([0-9.]+) s", done.stdout)}
    took = max(ends.get(each, PATIENCE) for each in said) - (float(began[1]) if began else 0)
    first = {each: re.search(rf"\[rank {each}/3\] (.*)", done.stdout) for each in said}
    named = all(found and re.match(said[each], found[1]) for each, found in first.items())
    checks.check(f"{what}: all ended within {took:.1f} s, and named it", took < patience + SLACK and named, done.stdout)
    for each, found in first.items():
        print(f"        machine {each}: {found[1] if found else 'nothing'}", flush=True)


def faults(checks):
    printed = checks.same("a link cut in the middle of a step for 7 s and healed", 3, 3, 1500, "--delay", 1, "--cut", 1, 5, 7)
    healed = re.search(r"machine 1: healed after ([0-9.]+) s", printed)
    ended = re.findall(r"machine \d: status 0 after ([0-9.]+) s", printed)
    checks.check("  and training went on after that", healed is not None and len(ended) == 3 and
                 all(float(each) > float(healed[1]) for each in ended), printed)
    fault(checks, "a link cut for ever", ["--cut", 1, 4], of_rank_1())
    fault(checks, "rank 0's link cut for ever", ["--cut", 0, 4], of_rank_0())
    fault(checks, "a link cut for longer than the deadline, then healed", ["--cut", 1, 4, 25], of_rank_1())
    fault(checks, "a machine that hears nothing, and is heard", ["--deafen", 1, 4], of_rank_1())
    fault(checks, "a machine that is not heard, and hears", ["--mute", 1, 4], of_rank_1())
    fault(checks, "rank 0's machine hears nothing, and is heard", ["--deafen", 0, 4], of_rank_0())
    fault(checks, "rank 0's machine is not heard, and hears", ["--mute", 0, 4], of_rank_0())
    apart = "rank [12] on machine[12] receives nothing from rank [12] on machine[12]"
    fault(checks, "a machine that receives nothing from one other", ["--deafen", 1, 4, "--from", 2], dict.fromkeys(range(3), apart),
          ["--timeout", 2000], patience=2)
    gone = r"(\(.*\) |on machine\d )ended without leaving"
    fault(checks, "a machine that vanishes", ["--vanish", 1, 4], {each: f"{of_rank_1()[each]}|rank 1 {gone}" for each in (0, 2)})
    fault(checks, "rank 0's machine vanishes", ["--vanish", 0, 4],
          {each: f"{of_rank_0()[each]}|rank 0 {gone}" for each in (1, 2)})


def mpi(checks):
    for stage in (0, 3):
        checks.same(f"stage {stage} on 3 machines over Open MPI", 3, stage, 12, "--open-mpi")


SHAPE = {"layers": 2, "heads": 4, "channels": 128, "context": 64}


def median_step_ms(checks, stage, ranks, command):
    """The median step time of the second half of 20 steps, from the tokens per second that train_gpt prints."""
    train = checks.train(stage, "timed", 20)
    for name, value in SHAPE.items():
        train[train.index(f"--{name}") + 1] = str(value)
    printed = run([*command, *train]).stdout
    rates = sorted(float(each) for each in re.findall(r"(?m)^step .* ([0-9.]+) tokens/s", printed)[10:])
    if not rates:
        sys.exit(printed)
    return 1e3 * ranks * 4 * SHAPE["context"] / rates[len(rates) // 2]  # configs/zero*.json: 4 samples for each rank


def simulated_ms(checks, stage, ranks, machine, *options):
    model = checks.folder / "config.json"
    model.write_text(json.dumps({"model_type": "gpt2", "n_layer": SHAPE["layers"], "n_head": SHAPE["heads"], "vocab_size": 256,
                                 "n_embd": SHAPE["channels"], "n_positions": SHAPE["context"]}))
    printed = run([checks.bin / "zeroth", "simulate", "--model", model, "--ranks", ranks, "--json", "--machine", machine,
                   "--config", REPOSITORY / f"configs/zero{stage}.json", *options]).stdout
    try:
        return next(each["step_ms"] for each in json.loads(printed)["stages"] if each["stage"] == stage)
    except ValueError:
        sys.exit(printed)


def simulate(checks):
    rate = ["--rate", 200]
    links = checks.folder / "links.jsonl"
    measured = run([MACHINES, 2, *rate, "--", checks.bin / "bench_collectives", 3, 4]).stdout
    links.write_text("".join(line + "\n" for line in measured.splitlines() if line.startswith("{")))
    machine = checks.folder / "machine.json"
    text = (REPOSITORY / "configs/machines/two_cores.json").read_text()
    machine.write_text(text)
    factor = simulated_ms(checks, 0, 1, machine) / median_step_ms(checks, 0, 1, [])
    machine.write_text(re.sub(r'("peak_flops_per_s": )([0-9.e+]+)', lambda found: f"{found[1]}{factor * float(found[2]):.3g}", text))
    for stage in range(4):
        real = median_step_ms(checks, stage, 2, [MACHINES, 2, *rate, "--"])
        of_model = simulated_ms(checks, stage, 2, machine, "--measured-links", links)
        print(f"        stage {stage}: {real:.1f} ms measured, {of_model:.1f} ms simulated, {100 * (of_model / real - 1):+.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/dev")
    parser.add_argument("--only", default="stages,slow,faults,mpi")
    options = parser.parse_args()
    needed = ["train_gpt"]
    needed += ["fault_program"] if "faults" in options.only else []
    needed += ["zeroth", "bench_collectives"] if "simulate" in options.only else []
    for program in needed:
        if not (options.build / "bin" / program).exists():
            parser.error(f"--build {options.build} has no bin/{program}: build it, or name another folder")
    parts = {"stages": stages, "slow": slow, "faults": faults, "mpi": mpi, "simulate": simulate}
    with tempfile.TemporaryDirectory(prefix="zeroth-machines-") as folder:
        checks = Checks(options.build, pathlib.Path(folder))
        for part in options.only.split(","):
            parts[part](checks)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
