#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the benchmarks' load L1 with each zeroth.reduce_codec, and with OneBitAdam that freezes after a fifth of the
steps. Compares the final losses with those of AdamW without a codec.

    scripts/codec_losses.py --out codec_losses.json                   1,000 steps of two ranks in bf16
    scripts/codec_losses.py --steps 100 --codecs int4 --out x.json    fewer steps, one codec

All runs see the same samples in the same order. OneBitAdam does not clip, so it is compared with AdamW without
clipping. The final loss is the mean of the last 50 steps. Exit status: 1 if a loss differs by more than 1 %.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bench" / "peers"))
from kept import text_of  # noqa: E402
from loads import LOADS, PRECISIONS, stage_file  # noqa: E402
from run import DEFAULT_TEXT, commit, concatenate, machine, positive, words_of  # noqa: E402

BASES = {"none": None, "int8": "none", "int4": "none", "unclipped": None, "one_bit_adam": "unclipped"}  # compared with
CODECS = tuple(codec for codec, base in BASES.items() if base)
RANKS = 2
BOUND = 0.01
AT_THE_END = 50  # steps


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-gpt", type=pathlib.Path, default=REPOSITORY / "build/release/bin/train_gpt")
    parser.add_argument("--load", choices=("L1", "L2"), default="L1")
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16")
    parser.add_argument("--codecs", type=words_of(CODECS), default=list(CODECS), help="beside what they are compared with [all]")
    parser.add_argument("--steps", type=positive, default=1000)
    parser.add_argument("--data", type=pathlib.Path, default=DEFAULT_TEXT, help="file, or folder of files [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args(words)


def config(load, precision, codec, steps):
    """Text of a stage file. The learning rate is that of configs/, ten times that of the benchmarks, so that the model
    learns. It decays to nearly 0: at a constant rate final losses are noisier (on L2, int8 was 1.4 % above none)."""
    text = json.loads(stage_file(2, load, precision))
    text["optimizer"]["params"]["lr"] = 1e-3
    text["scheduler"] = {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 20, "warmup_type": "linear",
                                                              "total_num_steps": max(21, steps), "cos_min_ratio": 0.01}}
    if codec in ("unclipped", "one_bit_adam"):
        text["gradient_clipping"] = 0
        text["zero_optimization"]["stage"] = 0
    if codec == "one_bit_adam":
        text["optimizer"]["type"] = "OneBitAdam"
        text["optimizer"]["params"]["freeze_step"] = max(1, steps // 5)
    text["zeroth"] = {"reduce_codec": codec if codec in ("int8", "int4") else "none"}
    return json.dumps(text)


def losses_of(options, codec, data, folder):
    load = LOADS[options.load]
    (folder / "stage.json").write_text(config(load, options.precision, codec, options.steps), encoding="utf-8")
    report = folder / "report.jsonl"
    command = [options.train_gpt, "--config", folder / "stage.json", "--data", data, "--ranks", RANKS, "--steps", options.steps,
               "--report", report, "--layers", load.layers, "--heads", load.heads, "--channels", load.channels,
               "--context", load.context]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    records = (json.loads(line) for line in report.read_text(encoding="utf-8").splitlines())
    return [record["loss"] for record in records if record["record"] == "step"]


def at_the_end(losses):
    return statistics.mean(losses[-AT_THE_END:])


def compared(losses):
    """Records, one for each codec, from {codec: losses}."""
    ends = {codec: at_the_end(of) for codec, of in losses.items()}
    return [{"codec": codec, "steps": len(of), "loss": ends[codec], "over_base": ends[codec] / ends[BASES[codec] or codec],
             "every_25th": of[24::25]} for codec, of in losses.items()]


def runs_of(codecs):
    """The requested codecs, and those that they are compared with."""
    return [run for run, base in BASES.items() if run in codecs or any(BASES[codec] == run for codec in codecs)]


def main():
    options = arguments()
    record = {"benchmark": "codec_losses", "machine": machine(), "zeroth": commit(), "load": options.load,
              "precision": options.precision, "ranks": RANKS, "bound": BOUND, "codecs": []}
    losses = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        concatenate(options.data, folder / "data.txt")
        for codec in runs_of(options.codecs):
            losses[codec] = losses_of(options, codec, folder / "data.txt", folder)
            record["codecs"] = compared(losses)
            options.out.write_text(text_of(record), encoding="utf-8")
            line = record["codecs"][-1]
            print(f"{codec}: loss {line['loss']:.5f} after {line['steps']} steps, {line['over_base']:.5f} of "
                  f"{BASES[codec] or codec}", flush=True)
    return 1 if any(abs(line["over_base"] - 1) > BOUND for line in record["codecs"]) else 0


if __name__ == "__main__":
    sys.exit(main())
