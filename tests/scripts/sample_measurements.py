# SPDX-License-Identifier: Apache-2.0
"""Sample files like those that scripts/record.sh keeps: lines of bench_step_time and `zeroth plan`, and a file of
bench/peers/run.py."""

import itertools
import json
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import sample_runs  # noqa: E402
from lib.checkpoints import own as own_checkpoints  # noqa: E402
from lib.peers_file import PRECISIONS, own  # noqa: E402
from lib.peers_table import SYSTEMS  # noqa: E402
from lib.tensor import own as own_tensor  # noqa: E402

MIB = 2**20


def step_time(loads=("L1", "L2"), ranks=(2, 4)):
    lines = []
    for load in loads:
        for count in ranks:
            base = (900 if load == "L1" else 55) * count / 2
            for stage, ratio in enumerate((1.003, 0.97, 0.985, 1.12)):
                ms = base * ratio
                lines.append({"benchmark": "step_time", "load": load, "layers": 6, "channels": 384,
                              "micro_batch": 4 if load == "L1" else 1, "context": 256 if load == "L1" else 128,
                              "ranks": count, "stage": stage, "rounds": 12, "step_ms": ms, "exposed_comm_ms": ms * (0.04 + 0.05 * stage),
                              "tokens_per_s": 256e3 * count / ms, "ratio_to_stage_0": ratio,
                              "ratio_quartiles": [ratio - 0.02, ratio + 0.03]})
    return lines


def plan(parameters, ranks, units=32):
    """A plan with 16 bytes per parameter and slots of two units."""
    stages = []
    for stage in range(4):
        held = [2 * parameters, 2 * parameters, 12 * parameters]
        for index in range({0: 3, 1: 2, 2: 1, 3: 0}[stage], 3):
            held[index] //= ranks
        slots = (0, 0, 2, 4)[stage] * 2 * (parameters // units)
        stages.append({"stage": stage, "parameters": held[0], "gradients": held[1], "optimizer": held[2], "slots": slots,
                       "scratch": 4096, "padding": 512, "total": sum(held) + slots + 4608, "bytes_sent_per_step": 1})
    return {"ranks": ranks, "model": {"name": f"{parameters} parameters", "parameters": parameters, "units": units},
            "config": None, "stage": 3, "device_memory": 80 * 2**30, "stages": stages}


RANKS = tuple(2**power for power in range(11))


def savings(models=(7_500_000_000, 128_000_000_000, 1_000_000_000_000), ranks=RANKS):
    return [plan(parameters, count) for parameters in models for count in ranks]


def simulated():
    stages = [{"stage": stage, "total": total * 2**30, "tokens_per_s": 1000.0 * total}
              for stage, total in enumerate((100, 30, 20, 5))]
    return {"ranks": 64, "model": {"name": "GPT 7.5B", "parameters": 7, "units": 3}, "machine": "8xH100", "stages": stages}


PUBLISHED = {"rows": 9, "mean": 1.01, "spread": 0.05, "least": 0.9, "most": 1.2}


LOADS = {name: {"layers": 6, "heads": 6, "channels": 384, "context": context, "micro_batch": batch, "steps": 3,
                "ranks": [2, 4], "warmup": 2}
         for name, batch, context in (("L1", 4, 256), ("L2", 1, 128), ("state", 1, 64))}
# Ratios of each system to Zeroth at stage 3, and of each load.
SPEED = {"zeroth0": 1.05, "zeroth3": 1.0, "ddp": 0.8, "fsdp2": 0.45, "deepspeed1": 0.5, "deepspeed2": 0.47,
         "deepspeed3": 0.3}
PEAK = {"zeroth0": 1.0, "zeroth3": 0.4, "ddp": 1.4, "fsdp2": 0.9, "deepspeed1": 1.1, "deepspeed2": 1.0,
        "deepspeed3": 1.2}


def peers(rounds=3, failing=(("fp32", "L2", 4, "deepspeed3", "lean"),), maker="AMD", faster_in_bf16=2):
    """`failing`: (precision, load, ranks, system, variant) that fail in every round. DDP default also fails once at L1."""
    runs, failures = [], []
    settings = [(precision, *setting) for precision in PRECISIONS
                for setting in (("L1", 2), ("L1", 4), ("L2", 2), ("L2", 4), ("state", 4))]
    everyone = [(system, variant) for system, (_, variants) in SYSTEMS.items() for variant in variants]
    for precision, load, ranks in settings:
        for number, (system, variant) in itertools.product(range(rounds), everyone):
            where = precision, load, ranks, system, variant
            key = dict(zip(("precision", "load", "ranks", "system", "variant"), where), round=number)
            if where in failing or (*where, number) == ("fp32", "L1", 2, "ddp", "default", 1):
                failures.append({**key, "error": "exit status 1\nTraceback\nRuntimeError: gloo | broke & <b>"})
                continue
            is_ours = system.startswith("zeroth")
            speed = {"L1": 2600, "L2": 1900, "state": 210}[load] * SPEED[system] * (1 + 0.03 * (number - 1))
            speed *= faster_in_bf16 if is_ours and precision == "bf16" else 1
            speed *= {"tuned": 1.1, "lean": 0.8, "mpi": 0.93}.get(variant, 1)
            peak = {"L1": 190, "L2": 150, "state": 1400}[load] * PEAK[system] * {"lean": 0.6}.get(variant, 1) * MIB
            drift = 0 if is_ours else 0.02 * own.LOSS_BOUNDS[precision]
            runs.append({**key, "tokens_per_s": speed, "step_ms": [4.0, 2.0, 2.1],
                         "losses": [5.5, 4.25, 3.75 + drift], "peak_bytes": [peak - MIB, peak], "idle_bytes": [80 * MIB] * 2})
    return {"benchmark": "peers", "math": {"fp32": "Eigen 3.4.0", "bf16": "oneDNN 2.6.3"},
            "machine": {"processor": "A processor", "maker": maker, "instructions": "AVX2", "cores": 2, "memory": "25165824 kB",
                        "system": "Linux", "load_average": [0.1, 0.1, 0.1]},
            "zeroth": "0123abc", "versions": {"python": "3.11.2", "torch": "2.15.0"}, "data_bytes": 1, "launcher": "fork",
            "optimizer": {}, "clipping": 1.0, "loss_bounds": own.LOSS_BOUNDS, "loads": LOADS, "stage_file": {}, "rounds": rounds,
            "runs": runs, "failures": failures, "summary": own.summarise(runs)}


def checkpoints():
    """DeepSpeed's save failed in the second round."""
    raw = {"raw_write": 0.5, "raw_read": 0.4, "memcpy": 0.1}
    runs = [{"system": "zeroth", "round": 0, **raw, "save": 0.5, "async_save_blocks": 0.001, "async_save_bytes": 1_200_000,
             "load": 0.44, "load_other": 0.8, "raw_read_other": 0.4},
            {"system": "dcp", "round": 0, **raw, "save": 2.5, "async_save_blocks": 0.4, "async_save_bytes": 60_000_000, "load": 1.0,
             "load_other": 1.6, "raw_read_other": 0.4},
            {"system": "deepspeed", "round": 0, **raw, "save": 2.0, "convert": 11.0},
            {"system": "zeroth", "round": 1, **raw, "save": 0.7}]
    return {"benchmark": "checkpoint_peers", "zeroth": "0123abc", "versions": {"torch": "2.15.0", "deepspeed": "0.19.8"}, "rounds": 2,
            "machine": {"processor": "AMD | EPYC", "instructions": "AVX-512", "cores": 2, "system": "Linux-6"}, "runs": runs,
            "failures": [{"system": "deepspeed", "round": 1, "error": "Traceback\nno answer within 300 s\n"}],
            "summary": own_checkpoints.summarise(runs)}


# Each contender's tokens/s and MiB per rank; leaner variants are slower.
TENSOR = {"zeroth": (2400, 140), "zeroth sequence": (2300, 160), "zeroth over MPI": (2200, 160), "zeroth stage 0": (2700, 280),
          "zeroth stage 0, before": (2600, 280), "dtensor tuned": (1500, 250), "dtensor lean": (1000, 200),
          "dtensor sequence tuned": (1200, 210), "megatron tuned": (1600, 260)}


def tensor(rounds=3, peer_rounds=2):
    """Megatron-Core's layers failed in the second round on L2, and all turns of a round are faster by its number."""
    runs, failures = [], []
    for load, precision, number in itertools.product(("L1", "L2"), PRECISIONS, range(rounds)):
        for contender, (speed, peak) in TENSOR.items():
            if number >= peer_rounds and not contender.startswith("zeroth"):
                continue
            key = {"contender": contender, "load": load, "precision": precision, "round": number}
            if (contender, load, number) == ("megatron tuned", "L2", 1):
                failures.append({**key, "error": "Traceback\nRuntimeError: gloo | broke"})
                continue
            drift = 0 if contender.startswith("zeroth") else 0.02 * own.LOSS_BOUNDS[precision]
            runs.append({**key, "tokens_per_s": speed * (1 + number / 10), "step_ms": [4.0, 2.0],
                         "losses": [5.5, 4.25 + drift], "peak_bytes": [(peak - 1) * MIB, peak * MIB]})
    masks = [{"benchmark": "random", "case": f"keep, {isa}", "values": 4096, "values_per_second": rate}
             for isa, rate in (("plain", 0.25e9), ("AVX-512", 1.75e9))]
    return {"benchmark": "tensor", "zeroth": "0123abc", "versions": {"torch": "2.15.0", "megatron-core": "0.16.1"}, "rounds": rounds, "ranks": 2,
            "peer_rounds": peer_rounds,
            "machine": {"processor": "AMD | EPYC", "instructions": "AVX-512", "cores": 2, "memory": "25165824 kB", "system": "Linux-6"},
            "loads": {name: LOADS[name] for name in ("L1", "L2")}, "loss_bounds": own.LOSS_BOUNDS, "runs": runs, "failures": failures,
            "summary": own_tensor.summarise(runs), "masks": masks}


def gpu():
    """(a GPU check in which one run failed, PyTorch's results there)."""
    trained = {"model": "1.5B", "stage": 0, "ranks": 1, "gpus": 1, "micro_batch": 16, "recompute": False, "nccl": False, "offload": "",
               "step_ms": 1300.0, "exposed_comm_ms": 10.0, "tokens_per_s": 50_000.0, "mfu": 0.5, "losses": [10.5], "planned_bytes": 2**34,
               "measured_bytes": 2**34, "as_planned": True}
    check = {"gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory": "81559 MiB", "driver": "580.1"}], "commit": "0123abc",
             "tests": {"passed": ["a", "b"], "failed": [], "skipped": [], "for more GPUs": ["c"]}, "problems": [],
             "adamw": [{"gradient": "bf16", "parameter": "bf16", "gb_per_s": 2900.0, "ratio": 0.97}],
             "layers": [{"what": "attention", "times": 48, "us": 100.0, "us_of_all": 4800.0, "tflop_per_s": 200.4},
                        {"what": "all", "us_of_all": 6000.0, "tflop_per_s": 160.0}],
             "training": [trained | {"name": "1.5B_stage0_1"}, trained | {"name": "1.5B_stage0_1_offload_host", "offload": "host"},
                          {"name": "x", "model": "124M", "stage": 3, "failed": "it | broke"}]}
    peers_there = [{"peer": "fsdp2", "compiled": True, "model": "1.5B", "micro_batch": 16, "tokens_per_s": 40_000.0, "torch": "2.11.0+cu130"}]
    return check, peers_there


def write_all(folder):
    """Writes a folder like docs/measured after all measurements."""
    (folder / "demo").mkdir(parents=True)
    for stage in range(4):
        sample_runs.write(folder / f"demo/stage{stage}.jsonl", sample_runs.records(stage))
    sample_runs.write(folder / "step_time.jsonl", step_time())
    sample_runs.write(folder / "savings.jsonl", savings())
    (folder / "checkpoints.json").write_text(json.dumps(checkpoints()), encoding="utf-8")
    (folder / "tensor.json").write_text(json.dumps(tensor()), encoding="utf-8")
    (folder / "simulated.json").write_text(json.dumps(simulated()), encoding="utf-8")
    (folder / "published.json").write_text(json.dumps(PUBLISHED), encoding="utf-8")
    check, peers_there = gpu()
    (folder / "gpu.json").write_text(json.dumps(check), encoding="utf-8")
    sample_runs.write(folder / "gpu_peers.jsonl", peers_there)
    (folder / "peers_amd.json").write_text(json.dumps(peers()), encoding="utf-8")
    (folder / "peers_intel.json").write_text(json.dumps(peers(maker="Intel", faster_in_bf16=3, failing=())), encoding="utf-8")
