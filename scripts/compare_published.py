#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second that `zeroth simulate` gives for steps that others published, or that were measured on a GPU.

    scripts/compare_published.py                   a table, from tests/simulate/published.jsonl
    scripts/compare_published.py --document docs/simulate.md      puts it there

Each machine and kind of code has one set of numbers; nothing is fitted to one row. Exit status 1 if rows are further off than the
simulator may be: their geometric mean 5 %, all together 9 % (root mean square of logarithms), any one outside of 0.75 to 1.3.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import markdown  # noqa: E402
from lib.records import ReportError, read_lines  # noqa: E402

MOST_MEAN, MOST_SPREAD, LEAST, MOST = 0.05, 0.09, 0.75, 1.3
PREFETCH = 1_000_000_000  # FSDP gathers the next unit whatever its size


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=pathlib.Path, default=REPOSITORY / "tests/simulate/published.jsonl")
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth")
    parser.add_argument("--document", type=pathlib.Path, help="whose block \"published\" is to hold the table")
    return parser.parse_args()


def model_file(model, context, folder):
    if "layers" not in model:  # the only one that is not GPT-2's architecture
        return REPOSITORY / "configs/models/llama3_8b.json"
    file = folder / "config.json"
    file.write_text(json.dumps({"model_type": "gpt2", "n_layer": model["layers"], "n_head": model["heads"], "n_embd": model["channels"],
                                "n_positions": context, "vocab_size": model["vocabulary"]}), encoding="utf-8")
    return file


def stage_file(row, folder):
    file = folder / "stage.json"
    file.write_text(json.dumps({
        "train_micro_batch_size_per_gpu": row["micro_batch"], "gradient_accumulation_steps": row["accumulation"],
        "gradient_clipping": 1.0, "bf16": {"enabled": True}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": row["stage"], "overlap_comm": True, "stage3_prefetch_bucket_size": PREFETCH}}), encoding="utf-8")
    return file


def tokens_per_s_per_gpu(zeroth, row, folder):
    machine = REPOSITORY / row["machine"] if row["machine"].endswith(".json") else row["machine"]
    words = [zeroth, "simulate", "--model", model_file(row["model"], row["context"], folder), "--config", stage_file(row, folder),
             "--ranks", str(row["gpus"]), "--machine", machine, "--code", row["code"], "--context", str(row["context"]), "--json"]
    words += ["--recompute"] if row["recompute"] else []
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReportError(f"{zeroth} simulate: {done.stderr}")
    stage = next(stage for stage in json.loads(done.stdout)["stages"] if stage["stage"] == row["stage"])
    return stage["tokens_per_s"] / row["gpus"]


def cells(row, simulated):
    batch = f"{row['micro_batch']} x {row['accumulation']}" + (", recomputed" if row["recompute"] else "")
    return (markdown.plain(row["model"]["name"]), f"{row['context']:,}", str(row["gpus"]), batch, row["code"], str(row["stage"]),
            f"{row['tokens_per_s_per_gpu']:,}", f"{simulated:,.0f}", f"{simulated / row['tokens_per_s_per_gpu']:.2f}")


def problems_of(ratios, mean, spread):
    if abs(mean - 1) > MOST_MEAN:
        yield f"the geometric mean is {mean:.3f}, more than {MOST_MEAN:.0%} off"
    if spread > MOST_SPREAD:
        yield f"the root mean square of logarithms is {spread:.3f}, more than {MOST_SPREAD}"
    for number, ratio in enumerate(ratios, 1):
        if not LEAST <= ratio <= MOST:
            yield f"line {number} has a ratio of {ratio:.3f}; allowed: {LEAST} to {MOST}"


def compare(options, folder):
    rows = [record.fields for record in read_lines(options.published)]
    simulated = [tokens_per_s_per_gpu(options.zeroth, row, folder) for row in rows]
    ratios = [mine / row["tokens_per_s_per_gpu"] for mine, row in zip(simulated, rows)]
    logs = [math.log(ratio) for ratio in ratios]
    mean, spread = math.exp(sum(logs) / len(logs)), math.sqrt(sum(log**2 for log in logs) / len(logs))
    header = ("model", "context", "GPUs", "micro-batch x steps", "code", "stage", "tokens/s and GPU", "simulated", "ratio")
    text = markdown.table(header, [cells(row, mine) for row, mine in zip(rows, simulated)]) + (
        f"\n{len(rows)} rows: geometric mean {mean:.2f}, root mean square of logarithms {100 * spread:.1f} %, "
        f"from {min(ratios):.2f} to {max(ratios):.2f}.\n")
    return text, list(problems_of(ratios, mean, spread))


def main():
    options = arguments()
    try:
        with tempfile.TemporaryDirectory() as folder:
            text, problems = compare(options, pathlib.Path(folder))
        if options.document:
            document = options.document.read_text(encoding="utf-8")
            options.document.write_text(markdown.replaced(document, "published", text), encoding="utf-8")
        else:
            print(text, end="")
    except (ReportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for problem in problems:
        print(f"error: {options.published}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
