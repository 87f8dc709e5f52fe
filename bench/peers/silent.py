#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of published silent errors: gradients or updates that were wrong without a message, in DeepSpeed,
Megatron-FSDP, torchtitan or PyTorch. Each case trains one tiny network with Zeroth, DeepSpeed and PyTorch, and in fp64
in one process.

    cmake --build --preset release --target bench_silent
    .venv/bin/python bench/peers/silent.py --out silent.json

A run is right if the gradient norms of all its steps and its final weights are those of fp64, within BOUNDS. Zeroth's
results must also be bitwise equal to those of one rank at stage 0, at every stage and number of ranks; otherwise the
exit status is 1.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import launch
from run import machine, positive

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NAMES = [f"{layer}.{part}" for layer in ("first", "middle", "last") for part in ("weight", "bias")]
BOUNDS = {"fp32": 1e-4, "bf16": 0.05}  # relative to the norm, and to how far the weights moved
LIMIT_S = 180
OVERLAPPED = {"overlap_comm": True, "contiguous_gradients": True}


@dataclasses.dataclass(frozen=True)
class Peer:
    """One way to train a case: its name, its system, and its deviations from SPEC."""
    label: str
    system: str
    more: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    what: str
    issues: tuple
    ranks: int
    peers: tuple
    micro_steps: int = 1
    precision: str = "fp32"
    zeroth: tuple = ()  # zero_optimization and number of ranks of runs in addition to stages 0 to 3
    spec: dict = dataclasses.field(default_factory=dict)


SPEC = {"stage": 0, "uses": 1, "steps": 6, "uneven": False, "optimizer": "SGD", "lr": 0.1, "recompute": "", "save": "",
        "mesh": None, "summed": False, "delay": "all", "loss": "mean", "zero": {}, "config": {}, "zero_init": False}


def deepspeed(label, stage, **more):
    return Peer(f"DeepSpeed {label}", "deepspeed", {"stage": stage, **more})


def stages(first=0, **more):
    return tuple(deepspeed(str(stage), stage, **more) for stage in range(first, 4))


DDP, FSDP2 = Peer("DDP", "ddp"), Peer("FSDP2", "fsdp2")
HSDP = {"mesh": [2, 2]}
MUON = {"optimizer": {"type": "Muon", "params": {"lr": 0.02}}}

CASES = (
    Case("a layer used three times", "the middle layer runs three times in a micro-step",
         ("DeepSpeed#8224", "DeepSpeed#7718"), 2, (*stages(), deepspeed("2, overlapped", 2, zero=OVERLAPPED),
          deepspeed("2, reentrant recomputation", 2, recompute="reentrant"),
          deepspeed("2, overlapped, reentrant recomputation", 2, recompute="reentrant", zero=OVERLAPPED),
          deepspeed("3, reentrant recomputation", 3, recompute="reentrant"), DDP, FSDP2),
         micro_steps=2, precision="bf16", spec={"uses": 3}),
    Case("many micro-steps", "eight micro-steps on two ranks, activations recomputed",
         ("DeepSpeed#7718", "DeepSpeed#7985"), 2,
         (*stages(recompute="not reentrant"), deepspeed("2, overlapped", 2, recompute="not reentrant", zero=OVERLAPPED),
          deepspeed("1, fp32 sums", 1, recompute="not reentrant", config={"data_types": {"grad_accum_dtype": "fp32"}}), DDP, FSDP2),
         micro_steps=4, precision="bf16"),
    Case("bf16 without sharding", "stage 0 in bf16, against stages 1 to 3", ("DeepSpeed#7837",), 2, (*stages(), DDP),
         precision="bf16"),
    Case("one rank", "eight micro-steps where nothing is to be reduced", ("Megatron-LM#6660",), 1,
         (*stages(1), DDP, FSDP2, Peer("FSDP2, reduced every time", "fsdp2", {"delay": ""})), micro_steps=8),
    Case("groups of one rank", "the same where each of two ranks is a group", ("Megatron-LM#6660",), 2,
         (deepspeed("3, hpZ 1", 3, zero={"zero_hpz_partition_size": 1}),
          Peer("FSDP2, HSDP 2 x 1", "fsdp2", {"mesh": [2, 1]}),
          Peer("FSDP2, HSDP 2 x 1, delayed", "fsdp2", {"mesh": [2, 1], "delay": "across groups"})),
         micro_steps=4, zeroth=(({"stage": 3, "mics_shard_size": 1}, 2),)),
    Case("two groups of two ranks", "two micro-steps, reduced across groups in the last", ("Megatron-LM#4891",), 4,
         (deepspeed("3, hpZ 2", 3, zero={"zero_hpz_partition_size": 2}),
          Peer("FSDP2, HSDP", "fsdp2", {**HSDP, "delay": ""}),
          Peer("FSDP2, HSDP, delayed", "fsdp2", {**HSDP, "delay": "across groups"})),
         micro_steps=2, zeroth=(({"stage": 3, "mics_shard_size": 2}, 4), ({"stage": 3, "zero_hpz_partition_size": 2}, 4),
                                ({"stage": 1, "mics_shard_size": 2}, 4))),
    Case("unequal tokens", "samples of 1 to 4 tokens; the loss of a step is the mean over all of them",
         ("torchtitan#2318", "transformers#45305"), 4,
         (*(deepspeed(f"{stage}, gradient_allreduce_op sum", stage, loss="of all tokens",
                      config={"gradient_allreduce_op": "sum"}) for stage in range(4)),
          deepspeed("2, each rank's mean", 2),
          Peer("DDP", "ddp", {"loss": "of all tokens"}), Peer("DDP, each rank's mean", "ddp"),
          Peer("DDP, times ranks", "ddp", {"loss": "of all tokens, times ranks"}),
          Peer("FSDP2, summed", "fsdp2", {"loss": "of all tokens", "summed": True}),
          Peer("FSDP2, HSDP, summed", "fsdp2", {**HSDP, "loss": "of all tokens", "summed": True}),
          Peer("replicate(), summed", "replicate", {"loss": "of all tokens", "summed": True})),
         micro_steps=2, spec={"uneven": True}),
    Case("saved before the first step", "AdamW, whose states are saved before it has made a step",
         ("Megatron-LM#5974", "torchtitan#4382"), 2,
         (*stages(1, save="saved"), Peer("DDP", "ddp", {"save": "saved"}), Peer("FSDP2", "fsdp2", {"save": "saved"}),
          Peer("FSDP2, not saved", "fsdp2")),
         spec={"optimizer": "AdamW", "lr": 0.01, "steps": 1}),
    Case("pipeline", "two pipeline stages, four micro-steps", ("DeepSpeed#7773", "DeepSpeed#8152", "torchtitan#2972"), 2,
         (Peer("DeepSpeed pipeline, 0", "deepspeed pipeline"), Peer("DeepSpeed pipeline, 1", "deepspeed pipeline", {"stage": 1}),
          Peer("torch.distributed.pipelining", "torch pipeline")), micro_steps=4, spec={"shares": 1}),
    Case("Muon", "the first update of a matrix by Muon: its direction", ("DeepSpeed#8438", "DeepSpeed#8441"), 2,
         (*stages(config=MUON, zero={"reduce_scatter": False}),
          deepspeed("3, zero.Init", 3, config=MUON, zero_init=True, zero={"reduce_scatter": False}),
          deepspeed("1, bf16, fp32 sums", 1, config=MUON | {"data_types": {"grad_accum_dtype": "fp32"}}, precision="bf16"),
          Peer("DDP, torch.optim.Muon", "ddp"), Peer("FSDP2, torch.optim.Muon", "fsdp2"),
          Peer("yardstick: DDP with SGD", "ddp", {"optimizer": "SGD"}), Peer("yardstick: DDP with AdamW", "ddp", {"optimizer": "AdamW"})),
         micro_steps=4, spec={"optimizer": "Muon", "lr": 0.02, "steps": 1}))


class Zeroth:
    """Runs bench_silent: with same_bits_at_any_ranks at all stages and numbers of ranks, and with the stage only."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, case, zero, ranks, spec, any_ranks):
        params = {"lr": spec["lr"], **({} if spec["optimizer"] == "SGD" else {"weight_decay": 0.0}),
                  **({"adam_lr": 0.0} if spec["optimizer"] == "Muon" else {})}  # the peers do not update biases
        text = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": samples_of(case) // ranks,
                "bf16": {"enabled": case.precision == "bf16"}, "zero_optimization": zero,
                "optimizer": {"type": spec["optimizer"], "params": params}, "zeroth": {"same_bits_at_any_ranks": any_ranks}}
        file = self.folder / "stage.json"
        file.write_text(json.dumps(text), encoding="utf-8")
        command = [self.program, file, "--ranks", ranks, "--steps", spec["steps"], "--uses", spec["uses"]]
        command += ["--uneven"] if spec["uneven"] else []
        if any(peer.more.get("save") for peer in case.peers):
            shutil.rmtree(self.folder / "zeroth", ignore_errors=True)
            command += ["--save", self.folder / "zeroth"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode:
            raise launch.Failure(done.stderr.strip())
        result = json.loads(done.stdout)
        return {"norms": result["grad_norms"], "weights": dict(zip(NAMES, result["weights"]))}

    def of_case(self, case):
        """[(label, whether same_bits_at_any_ranks was on, result or Failure)], one rank at stage 0 first."""
        spec = {**SPEC, **case.spec}
        zeros = [{"stage": stage} for stage in range(4)]
        runs = [(zero, ranks, True) for ranks in (1, 2, 4) if samples_of(case) % ranks == 0 for zero in zeros]
        runs += [(*each, True) for each in case.zeroth] + [(zero, case.ranks, False) for zero in zeros]
        results = []
        for zero, ranks, any_ranks in runs:
            label = f"{json.dumps(zero)[1:-1]}, ranks: {ranks}" + (", same_bits_at_any_ranks" if any_ranks else "")
            try:
                results.append((label, any_ranks, self.run(case, zero, ranks, spec, any_ranks)))
            except launch.Failure as failure:
                results.append((label, any_ranks, failure))
        return results


def samples_of(case):
    """Samples of a step. The ranks of a pipeline share them."""
    return case.spec.get("shares", case.ranks) * case.micro_steps


def merged(folder, ranks):
    """Rank 0's norms, and the weights of all ranks, since the ranks of a pipeline have different ones."""
    parts = [json.loads((folder / f"rank.{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    return {"norms": parts[0]["norms"], "weights": {name: values for part in reversed(parts) for name, values in part["weights"].items()}}


def start_weights(weights):
    """The common initial weights: bench/silent.cpp's numbers."""
    return {name: [((((NAMES.index(name) * 1009 + i + 1) * 2654435761) % 2**32 >> 26) * 2 - 63) / 128 for i in range(len(values))]
            for name, values in weights.items()}


def size(values):
    return math.sqrt(sum(x * x for x in values))


def difference(result, right):
    """The worst ratio of a norm to the right one, and the error of the weights relative to how far they should move."""
    ratios = [norm / true for norm, true in zip(result["norms"], right["norms"]) if norm is not None]
    ratio = max(ratios, key=lambda r: abs(math.log(max(r, 1e-9))), default=1.0)  # a pipeline without ZeRO reports no norm
    start = start_weights(right["weights"])
    way = size([b - a for name in start for a, b in zip(start[name], right["weights"][name])])
    off = size([b - a for name in start for a, b in zip(result["weights"][name], right["weights"][name])])
    return ratio, off / way


def direction(result, right):
    """The distance between two updates of the middle matrix, both scaled to length 1."""
    start = start_weights(right["weights"])["middle.weight"]
    updates = [[b - a for a, b in zip(start, each["weights"]["middle.weight"])] for each in (result, right)]
    one, other = ([x / max(size(update), 1e-30) for x in update] for update in updates)
    return size([a - b for a, b in zip(one, other)])


def said(text):
    """The last line with an error in a traceback, without the rank."""
    lines = [line.split("]: ", 1)[-1].strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), lines[-1])


def verdict(case, result, right):
    """(is right, in words)"""
    if isinstance(result, launch.Failure):
        return None, said(str(result))
    if case.spec.get("optimizer") == "Muon":
        apart = direction(result, right)
        return apart < 0.4, f"direction {apart:.2f} off"
    ratio, off = difference(result, right)
    bound = BOUNDS[case.precision]
    if abs(ratio - 1) <= bound and off <= bound:
        return True, f"right (within {max(abs(ratio - 1), off):.0e})"
    return False, f"norm x {ratio:.3g}, weights {100 * off:.2g} % off"


def zeroth_runs(case, results, right):
    runs = []
    for label, any_ranks, result in results:
        good, words = verdict(case, result, right)
        equal = result == results[0][2] and not isinstance(result, launch.Failure)
        runs.append({"system": "Zeroth", "label": label, "right": good, "words": words, "bits_of_one_rank": equal if any_ranks else None})
    return runs


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench-silent", type=pathlib.Path, default=REPOSITORY / "build/release/bin/bench_silent")
    parser.add_argument("--cases", help="parts of names, with commas")
    parser.add_argument("--peers", default="", help="part of their labels")
    parser.add_argument("--launcher", choices=("fork", "torchrun"), default="fork")
    parser.add_argument("--limit", type=positive, default=LIMIT_S, help="seconds of one run of a peer")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


def run_peer(peers, folder, case, peer):
    spec = {**SPEC, "precision": case.precision, "micro_steps": case.micro_steps, "system": peer.system, "shares": case.ranks,
            **case.spec, **peer.more}
    if spec["save"]:
        spec["save"] = str(folder / "saved")
        shutil.rmtree(folder / "saved", ignore_errors=True)
    ranks = 1 if peer.system == "fp64" else case.ranks
    for old in folder.glob("rank.*"):
        old.unlink()
    try:
        peers.ranks("silent_peers", ["--spec", json.dumps(spec), "--out", str(folder / "rank")], ranks, folder / "log")
        return merged(folder, ranks)
    except launch.Failure as failure:
        return failure


def main():
    options = arguments()
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # compiling Muon would take minutes
    chosen = [case for case in CASES if not options.cases or any(part in case.name for part in options.cases.split(","))]
    record = {"benchmark": "silent", "machine": machine(), "bounds": BOUNDS, "cases": [],
              "versions": {name: importlib.metadata.version(name) for name in ("torch", "deepspeed")}}
    broken = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        peers = launch.Peers(options.launcher, None, folder, options.limit)
        zeroth = Zeroth(options.bench_silent, folder)
        for case in chosen:
            right = run_peer(peers, folder, case, Peer("fp64", "fp64"))
            if isinstance(right, launch.Failure):
                sys.exit(f"silent.py: {case.name}, fp64: {right}")
            runs = zeroth_runs(case, zeroth.of_case(case), right)
            asked = [run for run in runs if run["bits_of_one_rank"] is not None]
            equal = sum(run["bits_of_one_rank"] for run in asked)
            fine = sum(run["right"] is True for run in runs)
            broken |= equal < len(asked) or fine < len(runs)
            print(f"{case.name}: Zeroth, {runs[0]['label']}: {runs[0]['words']}; {fine} of {len(runs)} runs are right, "
                  f"{equal} of {len(asked)} have its bits", flush=True)
            for peer in (peer for peer in case.peers if options.peers in peer.label):
                good, words = verdict(case, run_peer(peers, folder, case, peer), right)
                runs.append({"system": peer.system, "label": peer.label, "right": good, "words": words})
                print(f"  {peer.label}: {words}", flush=True)
            record["cases"].append({"name": case.name, "what": case.what, "issues": case.issues, "ranks": case.ranks,
                                    "micro_steps": case.micro_steps, "precision": case.precision, "runs": runs})
            options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
