# SPDX-License-Identifier: Apache-2.0
"""The figures of scripts/gpu_check.sh, gpu_check.json and gpu_check.md, and the training runs among them (gpu_cases.py).

    gpu_check.py algorithms --folder FOLDER --program BENCH_CUDA_GPT
    gpu_check.py run --folder FOLDER --text TEXT --program TRAIN_GPT
    gpu_check.py table --folder FOLDER
"""

import argparse
import json
import re
import sys
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also started by itself

from lib import runs
from lib.gpu_cases import (
    CASES,
    algorithms_file,
    cases_for,
    cases_to_run,
    gpus_of,
    is_rehearsal,
    measure_algorithms,
    run_cases,
)
from lib.records import ReportError

# Dense bf16 products per second that the makers of GPUs state, by what nvidia-smi calls the GPU. Where several names are
# part of that, the longest counts.
PEAK_BF16 = {
    "A100": 312e12,
    "H100": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200": 989e12,
    "H200 NVL": 835e12,
    "GH200": 989e12,
    "B200": 2250e12,
    "GB200": 2500e12,
}

# As tests/support/gpu_main.cpp says it.
TOO_FEW = re.compile(r"skipped: needs \d+ GPUs, and [1-9]\d* are there")

REHEARSAL = "without a GPU: no figure here was measured on one"

# Aims. AdamW's bandwidth with fp32 masters, as part of a copy's in the same run; and the products of a whole GPU, as
# part of those that its maker states.
LEAST_OF_A_COPY = 0.90
LEAST_MFU = {CASES[1].name: 0.45}


def flops_per_token(model):
    """Of forward and backward as nanoGPT and PaLM count them: 6 per parameter of a matrix, and attention over the whole
    context, though half of it is masked. Recomputation is no use, so it is not counted."""
    layers, channels = model["layers"], model["channels"]
    parameters = 12 * layers * channels**2 + model["vocabulary"] * channels
    return 6 * parameters + 12 * layers * channels * model["context"]


def peak_of(gpu):
    names = [name for name in PEAK_BF16 if name in gpu]
    return PEAK_BF16[max(names, key=len)] if names else None


def figures(case, run, gpu, gpus):
    ranks = run.facts.fields["world"]
    tokens = run.settled("tokens_per_s")
    peak = peak_of(gpu)
    used = min(ranks, gpus)
    return {
        "name": case.name,
        "model": case.model,
        "stage": case.stage,
        "ranks": ranks,
        "gpus": used,
        "micro_batch": case.micro_batch,
        "recompute": case.recompute,
        "nccl": case.nccl,
        "offload": case.offload,
        "algorithms": case.algorithms,
        "step_graph": case.step_graph,
        "step_ms": run.settled("step_ms"),
        "exposed_comm_ms": run.settled("exposed_comm_ms"),
        "tokens_per_s": tokens,
        "mfu": None if peak is None else tokens * flops_per_token(run.facts.fields["model"]) / (peak * used),
        "losses": run.losses,
        "planned_bytes": run.fullest_rank["planned"]["total"],
        "measured_bytes": run.fullest_rank["measured_peak"]["total"],
        "as_planned": run.as_planned,
    }


def tests_of(path):
    """Names by outcome, from ctest's JUnit file, if there is one. Those that need more GPUs than there are say so
    themselves."""
    outcomes = {"passed": [], "failed": [], "skipped": [], "for more GPUs": []}
    if not Path(path).exists():
        return outcomes
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status == "run":
            kind = "passed"
        elif status == "fail":
            kind = "failed"
        else:
            kind = "for more GPUs" if TOO_FEW.search(case.findtext("system-out", "")) else "skipped"
        outcomes[kind].append(case.get("name"))
    return outcomes


def json_lines(path):
    """None of them if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def last_words(log):
    """What a run said last and how it ended, so that who sees the table alone knows."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    said = [line.strip() for line in lines if line.strip()]
    return f": {'; '.join(said[-2:]).replace('|', '/')}" if said else ""


def collect(folder):
    gpus = gpus_of(folder)
    adamw = json_lines(folder / "adamw.jsonl")
    training = []
    for case in cases_to_run(gpus, folder):
        try:
            training.append(figures(case, runs.read_run(case.name, str(folder / f"{case.name}.jsonl")), gpus[0][0], len(gpus)))
        except ReportError as error:
            failed = f"{error} (see {case.name}.log{last_words(folder / f'{case.name}.log')})"
            training.append({"name": case.name, "model": case.model, "stage": case.stage, "failed": failed})
    result = {"rehearsal": REHEARSAL} if is_rehearsal(gpus) else {}
    result |= {
        "gpus": [{"name": g[0], "memory": g[1], "driver": g[2]} for g in gpus],
        "commit": (folder / "commit.txt").read_text().strip(),
        "tests": tests_of(folder / "tests.xml"),
        "memory": json_lines(folder / "memory.jsonl"),
        "adamw": adamw,
        "layers": json_lines(folder / "layers.jsonl"),
        "algorithms_missing": [case.model for case in cases_for(gpus) if case.algorithms and not algorithms_file(case, folder).exists()],
        "training": training,
        "sanitizer": json_lines(folder / "sanitizer.jsonl"),
    }
    return result | {"problems": problems_of(result)}


def problems_of(result):
    """Everything that keeps a check from being a success, one a line."""
    tests = result["tests"]
    found = [f"test {kind}: {name}" for kind in ("failed", "skipped") for name in tests[kind]]
    if not tests["passed"]:
        found.append("no test passed")
    elif not any("nccl" in name for names in tests.values() for name in names):
        found.append("NCCL was not tested: the library was built without it (configure.log says why)")
    found += [f"{t['name']} failed: {t['failed']}" for t in result["training"] if "failed" in t]
    trained = [t for t in result["training"] if "failed" not in t]
    found += [
        f"{t['name']}: {t['measured_bytes']} bytes measured, {t['planned_bytes']} planned, on the rank that plans the most"
        for t in trained
        if not t["as_planned"]
    ]
    if not result["memory"]:
        found.append("no test said how much memory the driver reports (cuda_memory_gpu, nccl_memory_gpu)")
    if not any(layer["what"] == "all" for layer in result["layers"]):
        found.append("no layer was measured, or not all (bench_cuda_gpt)")
    found += [f"cuBLASLt's algorithms were not measured for {model} (bench_cuda_gpt --algorithms)" for model in result["algorithms_missing"]]
    found += [f"compute-sanitizer's {run['tool']} of {run['program']}: {run['failed'] or str(run['errors']) + ' errors'}"
              for run in result["sanitizer"] if run["failed"] or run["errors"] != 0]
    found += different_losses(trained)
    of_masters = [line for line in result["adamw"] if line.get("master", "fp32") == "fp32"]
    if not of_masters:
        found.append("missed aim: AdamW with fp32 masters was not measured")
    return found if "rehearsal" in result else [*found, *missed_aims(of_masters, trained)]


def missed_aims(adamw, trained):
    for line in adamw:
        if line["ratio"] < LEAST_OF_A_COPY:
            yield f"missed aim: AdamW ({adamw_dtypes(line)}) has {line['ratio']:.3f} of a copy's bandwidth, not {LEAST_OF_A_COPY:.2f}"
    for t in trained:
        least = LEAST_MFU.get(t["name"])
        if least is not None and t["mfu"] is None:
            yield f"missed aim: {t['name']} has an unknown MFU, not {least:.2f}: what this GPU could do is not listed"
        elif least is not None and t["mfu"] < least:
            yield f"missed aim: {t['name']} has an MFU of {t['mfu']:.3f}, not {least:.2f}"


def different_losses(trained):
    """Runs that should have trained the same, digit for digit, and did not: over `local` all stages on the same ranks and
    samples, wherever states are; over NCCL, which sums in an order of its own at each stage, those of one stage."""
    by_work = {}
    for t in trained:
        if not t["algorithms"]:  # which sum in orders of their own
            stage = t["stage"] if t["nccl"] else None
            by_work.setdefault((t["model"], t["ranks"], t["micro_batch"], t["recompute"], stage), []).append(t)
    for same in by_work.values():
        for other in same[1:]:
            both = list(zip(same[0]["losses"], other["losses"]))
            step = next((number for number, (a, b) in enumerate(both, 1) if a != b), None)
            if step is not None:
                yield f"the losses of {same[0]['name']} and {other['name']} differ from step {step} on"


def adamw_dtypes(line):
    """Gradient and parameter, and the states where they are not fp32."""
    states = f"; master {line['master']}, moments {line['moments']}" if line.get("master", "fp32") != "fp32" else ""
    return f"{line['gradient']}, {line['parameter']}{states}"


def layers_table(layers):
    """Where a micro-step spends its time, as bench_cuda_gpt says it."""
    lines = ["", f"| layer of {layers[0].get('model', '1.5B')} | of a micro-step | us each | TFLOP/s | GB/s | of all |", "|---|---|---|---|---|---|"] if layers else []
    every = sum(layer["us_of_all"] for layer in layers if layer["what"] != "all")
    for layer in layers:
        rates = [f"{layer[key]:.0f}" if key in layer else "" for key in ("tflop_per_s", "gb_per_s")]
        lines.append(f"| {layer['what']} | {layer.get('times', 1)} | {layer.get('us', layer['us_of_all']):.1f} | {rates[0]} | {rates[1]} "
                     f"| {layer['us_of_all'] / every:.3f} |")
    return lines


def markdown(result):
    gpus, tests = result["gpus"], result["tests"]
    lines = [f"# REHEARSAL {result['rehearsal']}", "", "Models are tiny. Aims are not judged.", ""] if "rehearsal" in result else []
    lines += [f"{'##' if 'rehearsal' in result else '#'} {len(gpus)} x {gpus[0]['name']}, {gpus[0]['memory']}, driver {gpus[0]['driver']}", "", f"Commit {result['commit']}.", ""]
    lines += [f"Tests that need a GPU: {', '.join(f'{len(tests[k])} {k}' for k in tests)}."]
    lines += [f"- {kind}: {name}" for kind in tests if kind != "passed" for name in tests[kind]]
    lines += ["", "| AdamW: gradient, parameter | GB/s | a copy's GB/s | of a copy |", "|---|---|---|---|"]
    lines += [f"| {adamw_dtypes(a)} | {a['gb_per_s']:.0f} | {a['copy_gb_per_s']:.0f} | {a['ratio']:.3f} |" for a in result["adamw"]]
    lines += ["", "| memory of the driver, MiB | stage | ranks | before | contexts | communicators | growth | planned |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for m in result["memory"]:
        columns = [m[f"{name}_bytes"] / 2**20 for name in ("before", "contexts", "communicators", "grown", "planned")]
        lines.append(f"| {m['communicator']} | {m['stage']} | {m['ranks']} | " + " | ".join(f"{mib:.1f}" for mib in columns) + " |")
    lines += ["", "| GPT-2, bf16 | stage | ranks on GPUs | step ms | exposed ms | tokens/s | MFU | last loss | planned MiB | measured MiB |"]
    lines += ["|---|---|---|---|---|---|---|---|---|---|"]
    for t in result["training"]:
        if "failed" in t:
            lines += [f"| {t['model']} | {t['stage']} | failed: {t['failed']} | | | | | | | |"]
            continue
        mfu = "unknown peak" if t["mfu"] is None else f"{t['mfu']:.3f}"
        model = t["model"] + (", recomputed" if t["recompute"] else "")
        model += ", fastest algorithms" if t["algorithms"] else ""
        model += ", launched as graphs" if t["step_graph"] else ""
        model += f", states in the host's memory, updated by the {t['offload']}" if t["offload"] else ""
        lines += [
            f"| {model} | {t['stage']} | {t['ranks']} on {t['gpus']}{', NCCL' if t['nccl'] else ''} | {t['step_ms']:.1f} | {t['exposed_comm_ms']:.1f} "
            f"| {t['tokens_per_s']:.0f} | {mfu} | {t['losses'][-1]:.6g} | {t['planned_bytes'] / 2**20:.1f} "
            f"| {t['measured_bytes'] / 2**20:.1f} |"
        ]
    lines += layers_table(result["layers"])
    lines += ["", "compute-sanitizer: " + ("; ".join(f"{run['tool']} of {run['program']}, {run['errors']} errors" for run in result["sanitizer"])
                                           or "not run") + "."]
    lines += ["", "MFU: tokens/s * (6 * parameters of matrices + 12 * layers * channels * context), of "
              + (f"{peak_of(gpus[0]['name']) / 1e12:.0f} TFLOP/s for each GPU, as its maker states for dense bf16." if peak_of(gpus[0]["name"])
                 else "what this GPU's maker states for dense bf16, which is not listed here.")]
    lines += ["", "Problems:" if result["problems"] else "No problems: tests passed, memory is what was planned, all "
              "stages over `local` have the same losses, digit for digit" + ("." if "rehearsal" in result else ", and the aims are met.")]
    lines += [f"- {problem}" for problem in result["problems"]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["algorithms", "run", "table"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--text")
    parser.add_argument("--program")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    if options.what == "algorithms":
        return 1 if measure_algorithms(options.folder, options.program, options.seconds) > 0 else 0
    if options.what == "run":
        return 1 if run_cases(options.folder, options.text, options.program, options.seconds) > 0 else 0
    result = collect(options.folder)
    (options.folder / "gpu_check.json").write_text(json.dumps(result, indent=2) + "\n")
    (options.folder / "gpu_check.md").write_text(markdown(result))
    print(markdown(result), end="")
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
