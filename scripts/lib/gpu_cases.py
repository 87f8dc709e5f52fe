# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_check.sh trains: GPT-2 in several sizes and stages, on the GPUs that there are."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    channels: int
    context: int = 1024
    vocabulary: int = 50304  # GPT-2's 50257, in whole tiles of 64

    @property
    def words(self):
        return [
            word
            for name in ("layers", "heads", "channels", "context", "vocabulary")
            for word in (f"--{name}", str(getattr(self, name)))
        ]


GPT2 = {"124M": Shape(12, 12, 768), "1.5B": Shape(48, 25, 1600)}
TINY = Shape(2, 2, 32, context=16, vocabulary=256)  # in a rehearsal, instead of each


@dataclass(frozen=True)
class Case:
    model: str
    stage: int
    ranks: int  # 0: as many as there are GPUs; threads are at least 4, which then share one
    micro_batch: int
    recompute: bool = False
    accumulate: int = 1  # micro-steps of a step
    steps: int = 20
    least_gib: int = 0  # of a GPU's memory
    nccl: bool = False  # as processes, not as threads of one
    offload: str = ""  # states in the host's memory, and who updates them: "device" or "host"
    algorithms: bool = False  # those of cuBLASLt that were measured as the fastest, not its own choice
    step_graph: bool = False  # a step is recorded, and launched for all others
    tiny: bool = False

    @property
    def name(self):
        return f"{self.model}_stage{self.stage}_{'all' if self.ranks == 0 else self.ranks}{'_nccl' if self.nccl else ''}" + (
            f"_offload_{self.offload}" if self.offload else "") + ("_algorithms" if self.algorithms else "") + ("_graph" if self.step_graph else "")

    @property
    def shape(self):
        return TINY if self.tiny else GPT2[self.model]


# Among cases of one name, the first that fits the memory of the GPU runs. The states of 1.5 billion parameters take
# 23 GiB, and a token's activations 2.4 MiB: 61 GiB in all for 16 sequences.
CASES = [
    Case("124M", 0, 1, 16),
    Case("1.5B", 0, 1, 16, accumulate=4, steps=10, least_gib=66),
    Case("1.5B", 0, 1, 4, recompute=True, accumulate=4, steps=10),
    Case("124M", 0, 1, 16, algorithms=True),
    Case("1.5B", 0, 1, 16, accumulate=4, steps=10, least_gib=66, algorithms=True),
    *(Case("1.5B", 0, 1, 16, accumulate=4, steps=4, least_gib=66, offload=offload) for offload in ("device", "host")),
    *(Case("124M", stage, 0, 4) for stage in range(4)),
    *(Case("124M", stage, 0, 4, nccl=True) for stage in range(4)),
    *(Case("124M", stage, 0, 4, nccl=True, step_graph=True) for stage in (0, 3)),
]


def is_rehearsal(gpus):
    """Whether they are those of tests/support/made_up_gpu/nvidia-smi."""
    return gpus[0][0].startswith("Made-up ")


def cases_for(gpus):
    """`gpus` as gpus_of() has them. In a rehearsal models are tiny."""
    gib = min(float(memory.removesuffix(" MiB")) for _, memory, _ in gpus) / 1024
    chosen = {}
    for case in CASES:
        if gib >= case.least_gib:
            chosen.setdefault(case.name, case)
    if is_rehearsal(gpus):
        return [replace(case, tiny=True, micro_batch=min(case.micro_batch, 2), steps=6 if case.step_graph else 3)
                for case in chosen.values()]
    return list(chosen.values())


def algorithms_file(case, folder):
    return folder / f"algorithms_{case.model}.json"


def cases_to_run(gpus, folder):
    """Without those whose algorithms were not measured."""
    return [case for case in cases_for(gpus) if not case.algorithms or algorithms_file(case, folder).exists()]


# A run that takes longer has failed, and the next one is started. Making 1.5 billion random parameters takes a minute.
MOST_SECONDS = 900


def gpus_of(folder):
    return [line.split(", ") for line in (folder / "gpus.csv").read_text().splitlines()]


def offload_keys(case):
    """Of zero_optimization, and of zeroth."""
    if not case.offload:
        return {}, {}
    threads = {"offload_update_threads": min(os.cpu_count(), 32)} if case.offload == "host" else {}
    return {"offload_optimizer": {"device": "cpu"}}, {"zeroth": {"offload_update": case.offload, **threads}}


def stage_file(case):
    of_zero, of_zeroth = offload_keys(case)
    return {
        "train_micro_batch_size_per_gpu": case.micro_batch,
        "gradient_accumulation_steps": case.accumulate,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": case.stage, "overlap_comm": True, **of_zero},
        **of_zeroth,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
    }


def ranks_of(case, gpus):
    return case.ranks or (gpus if case.nccl else max(gpus, 4))


def command(case, gpus, folder, text, program):
    ranks = ranks_of(case, gpus)
    words = [program, "--config", str(folder / f"{case.name}.json"), "--data", text, "--device", "cuda"]
    words += ["--steps", str(case.steps), "--report", str(folder / f"{case.name}.jsonl")]
    words += ["--comm", "nccl"] if case.nccl else ["--ranks", str(ranks)]
    words += case.shape.words
    words += ["--share-devices"] if ranks > gpus else []
    words += ["--recompute"] if case.recompute else []
    words += ["--algorithms", str(algorithms_file(case, folder))] if case.algorithms else []
    words += ["--step-graph"] if case.step_graph else []
    return words


def measure_algorithms(folder, program, seconds=float("inf")):
    """Runs bench_cuda_gpt for each case that trains with measured algorithms. How many failed, or had no time."""
    last = time.monotonic() + seconds
    failed = 0
    for case in cases_for(gpus_of(folder)):
        if case.algorithms:
            file = algorithms_file(case, folder)
            file.unlink(missing_ok=True)
            words = [program, "tiny" if case.tiny else case.model, str(case.micro_batch), "--context", str(case.shape.context)]
            words += ["--vocabulary", str(case.shape.vocabulary), "--algorithms", str(file)]
            failed += not run_logged(file.stem, words, [{}], folder, last)
    return failed


def run_cases(folder, text, program, seconds=float("inf")):
    """How many of them failed, or had no time. What earlier runs left is removed first: it must not pass for these runs'."""
    gpus = gpus_of(folder)
    last = time.monotonic() + seconds
    for case in CASES:
        for ending in ("json", "jsonl", "log"):
            (folder / f"{case.name}.{ending}").unlink(missing_ok=True)
    failed = 0
    for case in sorted(cases_to_run(gpus, folder), key=lambda case: case.model != "1.5B"):  # what has an aim comes first
        (folder / f"{case.name}.json").write_text(json.dumps(stage_file(case), indent=2) + "\n")
        words = command(case, len(gpus), folder, text, program)
        failed += not run_logged(case.name, words, environments(case, len(gpus)), folder, last)
    return failed


def run_logged(name, words, environments, folder, last):
    """Runs a program, as end_of() does, until `last` at most; its output goes to `name`.log. Whether it ended well."""
    print("==", " ".join(words), flush=True)
    with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
        begin = time.monotonic()
        left = min(MOST_SECONDS, last - begin)
        ending = end_of(words, environments, log, left) if left > 0 else "had no time left"
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
        if ending:
            log.write(f"{name} {ending}\n")
            print(f"error: {name} {ending}, see {folder / name}.log", file=sys.stderr)
    return not ending


def environments(case, gpus):
    """Of each process, as torchrun makes them; none of threads in one."""
    if not case.nccl:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = ranks_of(case, gpus)
    job = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{name: str(value) for name, value in (job | {"RANK": rank, "LOCAL_RANK": rank}).items()} for rank in range(ranks)]


def end_of(words, environments, log, seconds):
    """Runs a program, as a process for each environment; how it ended, if not well."""
    deadline = time.monotonic() + seconds
    processes = []
    try:
        for environment in environments:
            processes.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=os.environ | environment))
        statuses = [process.wait(timeout=max(deadline - time.monotonic(), 0)) for process in processes]
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds:.0f} s"
    except OSError as error:
        return f"did not start: {error}"
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return next((f"ended with status {status}" for status in statuses if status != 0), "")
