#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own reader reads event files of train_gpt: every value, equal to those in its CSV files.

Skipped, with status 77, if neither this Python nor that of build/tensorboard has TensorBoard:
    python3 -m venv build/tensorboard && build/tensorboard/bin/pip install tensorboard
"""
import csv
import json
import os
import pathlib
import struct
import subprocess
import tempfile

from needs import need

STEPS = 6


def rounded(value):
    """Rounds to fp32, the type in event files."""
    return struct.unpack("f", struct.pack("f", value))[0]


def stage_file(folder):
    monitor = {"enabled": True, "output_path": str(folder)}
    return {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2},
            "tensorboard": {**monitor, "job_name": "events"}, "csv_monitor": {**monitor, "job_name": "values"}}


def train(folder):
    (folder / "stage.json").write_text(json.dumps(stage_file(folder)), encoding="utf-8")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 200, encoding="utf-8")
    command = [os.environ["TRAIN_GPT"], "--config", folder / "stage.json", "--data", folder / "text.txt", "--ranks", "2",
               "--layers", "1", "--heads", "1", "--channels", "8", "--context", "16", "--steps", str(STEPS)]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def main():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train(folder)
        events = EventAccumulator(str(folder / "events"))
        events.Reload()
        names = events.Tags()["scalars"]
        assert {"Train/Samples/train_loss", "Train/Samples/lr"} <= set(names), names
        for tag in names:
            with open(folder / "values" / (tag.replace("/", "_") + ".csv"), encoding="utf-8") as file:
                expected = [(int(row[0]), rounded(float(row[1]))) for row in list(csv.reader(file))[1:]]
            read = [(event.step, event.value) for event in events.Scalars(tag)]
            assert read == expected, (tag, read, expected)
            assert [step for step, _ in read] == [4 * step for step in range(1, STEPS + 1)], read
        print(f"{len(names)} names, {STEPS} values each, as written")


if __name__ == "__main__":
    need("tensorboard")
    main()
