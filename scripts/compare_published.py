#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tokens per second of `zeroth simulate` with steps that others published, or that were measured on a GPU.

    scripts/compare_published.py                   two tables, from tests/simulate/published.jsonl
    scripts/compare_published.py --document docs/simulate.md      writes them into the document
    scripts/compare_published.py --record docs/measured/published.json      writes the simulator's errors

Each machine and kind of code has one set of numbers; nothing is fitted to a single row. Exit status: 1 if the errors
exceed 5 % in the geometric mean or 9 % in the root mean square of logarithms, or if a row's ratio is outside 0.75 to
1.3.
"""

import argparse
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import markdown  # noqa: E402
from lib.records import ReportError, read_document, read_lines  # noqa: E402

MOST_MEAN, MOST_SPREAD, LEAST, MOST = 0.05, 0.09, 0.75, 1.3
PREFETCH = 1_000_000_000  # FSDP prefetches the next unit whatever its size


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=pathlib.Path, default=REPOSITORY / "tests/simulate/published.jsonl")
    parser.add_argument("--machines", type=pathlib.Path, default=REPOSITORY / "tests/simulate/published_machines.json",
                        help="machines of rows that are not presets: each is like one, with other values")
    parser.add_argument("--zeroth", type=pathlib.Path, default=REPOSITORY / "build/release/bin/zeroth")
    parser.add_argument("--document", type=pathlib.Path, help="document whose block \"published\" gets the tables")
    parser.add_argument("--record", type=pathlib.Path, help="a JSON file for the summary")
    return parser.parse_args()


def model_file(row, folder):
    model = row["model"]
    if "hidden" in model:
        config = {"model_type": "llama", "hidden_size": model["channels"], "intermediate_size": model["hidden"],
                  "max_position_embeddings": row["context"], "num_attention_heads": model["heads"],
                  "num_hidden_layers": model["layers"], "num_key_value_heads": model["key_value_heads"],
                  "tie_word_embeddings": False, "vocab_size": model["vocabulary"]}
    else:
        config = {"model_type": "gpt2", "n_layer": model["layers"], "n_head": model["heads"], "n_embd": model["channels"],
                  "n_positions": row["context"], "vocab_size": model["vocabulary"]}
    return written(folder / "config.json", config)


def stage_file(row, folder):
    config = {
        "train_micro_batch_size_per_gpu": row["micro_batch"], "gradient_accumulation_steps": row["accumulation"],
        "gradient_clipping": 1.0, "bf16": {"enabled": True}, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": row["stage"], "overlap_comm": True, "stage3_prefetch_bucket_size": PREFETCH}}
    if "pipeline" in row:
        config["zeroth"] = {"mesh": {"pipeline": row["pipeline"]},
                            "pipeline": {"schedule": row["schedule"], "chunks": row["chunks"], "partition": "units"}}
    elif "tensor" in row:
        config["zeroth"] = {"mesh": {"tensor": row["tensor"]}, "sequence_parallel": True}
    if "reduced_in" in row:
        config["communication_data_type"] = row["reduced_in"]
    return written(folder / "stage.json", config)


def written(file, content):
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def machines_of(file, folder):
    """{name: argument of --machine}."""
    found = {}
    for name, machine in read_document(file).fields.items():
        preset = (REPOSITORY / f"configs/machines/{machine['like']}.json").read_text(encoding="utf-8")
        values = json.loads(re.sub("//.*", "", preset))
        values.update({key: value for key, value in machine.items() if key not in ("like", "because")}, name=name)
        found[name] = written(folder / f"{name}.json", values)
    return found


def tokens_per_s_per_gpu(zeroth, row, machine):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        words = [zeroth, "simulate", "--model", model_file(row, folder), "--config", stage_file(row, folder), "--ranks", str(row["gpus"]),
                 "--machine", machine, "--code", row["code"], "--context", str(row["context"]), "--json"]
        words += ["--recompute"] if row["recompute"] else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReportError(f"{zeroth} simulate: {done.stderr}")
    stage = next(stage for stage in json.loads(done.stdout)["stages"] if stage["stage"] == row["stage"])
    return stage["tokens_per_s"] / row["gpus"]


def simulated(options, rows):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        machines = machines_of(options.machines, pathlib.Path(folder))
        on = [machines.get(row["machine"], row["machine"]) for row in rows]
        return list(pool.map(functools.partial(tokens_per_s_per_gpu, options.zeroth), rows, on))


def cells(row, mine):
    batch = f"{row['micro_batch']} x {row['accumulation']}" + (", recomputed" if row["recompute"] else "")
    stage = (f"{row['pipeline']} of {row['schedule']}" if "pipeline" in row else f"ZeRO {row['stage']}") + (
        f", {row['tensor']} tensor ranks" if "tensor" in row else "")
    return (row["machine"], row["code"], markdown.plain(row["model"]["name"]), f"{row['context']:,}", str(row["gpus"]), batch,
            markdown.plain(stage), f"{row['tokens_per_s_per_gpu']:,}", f"{mine:,.0f}", f"{mine / row['tokens_per_s_per_gpu']:.2f}")


def summary(ratios):
    logs = [math.log(ratio) for ratio in ratios]
    return {"rows": len(ratios), "mean": round(math.exp(sum(logs) / len(logs)), 3),
            "spread": round(math.sqrt(sum(log**2 for log in logs) / len(logs)), 3),
            "least": round(min(ratios), 3), "most": round(max(ratios), 3)}


def cells_of_group(names, found):
    return (*names, str(found["rows"]), f"{found['mean']:.2f}", f"{100 * found['spread']:.1f} %", f"{found['least']:.2f} to {found['most']:.2f}")


def group_of(row):
    kind = "pipelines" if "pipeline" in row else "tensor ranks" if "tensor" in row else "ZeRO"
    return row["machine"], row["code"], kind


def problems_of(ratios, found):
    if abs(found["mean"] - 1) > MOST_MEAN:
        yield f"the geometric mean is {found['mean']:.3f}, more than {MOST_MEAN:.0%} off"
    if found["spread"] > MOST_SPREAD:
        yield f"the root mean square of logarithms is {found['spread']:.3f}, more than {MOST_SPREAD}"
    for number, ratio in enumerate(ratios, 1):
        if not LEAST <= ratio <= MOST:
            yield f"line {number} has a ratio of {ratio:.3f}; allowed: {LEAST} to {MOST}"


def tables(rows, mine, ratios, found):
    groups = {}
    for row, ratio in zip(rows, ratios):
        groups.setdefault(group_of(row), []).append(ratio)
    lines = [cells_of_group(names, summary(of_group)) for names, of_group in groups.items()]
    lines.append(cells_of_group(("all", "", ""), found))
    header = ("machine", "code", "model", "context", "GPUs", "micro-batch x steps", "stages", "tokens/s and GPU", "simulated", "ratio")
    return (markdown.table(("machine", "code", "stages", "rows", "geometric mean", "root mean square of logarithms", "from, to"), lines)
            + "\n" + markdown.table(header, [cells(row, each) for row, each in zip(rows, mine)]))


def main():
    options = arguments()
    try:
        rows = [record.fields for record in read_lines(options.published)]
        mine = simulated(options, rows)
        ratios = [each / row["tokens_per_s_per_gpu"] for each, row in zip(mine, rows)]
        found = summary(ratios)
        text = tables(rows, mine, ratios, found)
        if options.record:
            options.record.write_text(json.dumps(found) + "\n", encoding="utf-8")
        if options.document:
            document = options.document.read_text(encoding="utf-8")
            options.document.write_text(markdown.replaced(document, "published", text), encoding="utf-8")
        if not options.document and not options.record:
            print(text, end="")
    except (ReportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    problems = list(problems_of(ratios, found))
    for problem in problems:
        print(f"error: {options.published}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
