#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/lib/zeroth_checkpoint.py reads checkpoints of train_gpt, and train_gpt resumes from those that it writes,
with the same bits.

Skipped, with status 77, if neither this Python nor that of build/tensorboard has numpy and xxhash:
    python3 -m venv build/tensorboard && build/tensorboard/bin/pip install numpy xxhash
scripts/compare_converted.py also runs DeepSpeed and PyTorch.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from needs import need

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

STEPS, SAVED_AFTER = 5, 3
PLAIN = {"zero_optimization": {"stage": 3}}
BF16_MASTERS = {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, "zero_optimization": {"stage": 2}}
TENSOR = {"zero_optimization": {"stage": 1}, "zeroth": {"mesh": {"tensor": 2}}}


class Run:
    """A folder with a stage file and a text, and train_gpt in it."""

    def __init__(self, folder, more):
        self.folder = pathlib.Path(folder)
        stage = {"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1,
                 "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}}, **more}
        (self.folder / "stage.json").write_text(json.dumps(stage), encoding="utf-8")
        (self.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 200, encoding="utf-8")

    def train(self, ranks, steps, *more):
        report = self.folder / "report.jsonl"
        command = [os.environ["TRAIN_GPT"], "--config", self.folder / "stage.json", "--data", self.folder / "text.txt",
                   "--ranks", ranks, "--layers", 2, "--heads", 2, "--channels", 16, "--context", 16, "--steps", steps,
                   "--report", report, *more]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        records = map(json.loads, report.read_text(encoding="utf-8").splitlines())
        return [record["loss"] for record in records if record["record"] == "step"]


def tool(*words):
    return subprocess.run([os.environ["ZEROTH_TOOL"], *map(str, words)], capture_output=True, text=True, check=False)


def safetensors(path):
    """{name: fp32 array}"""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: numpy.frombuffer(data, "<f4", (of["data_offsets"][1] - of["data_offsets"][0]) // 4,
                                   8 + length + of["data_offsets"][0]).reshape(of["shape"])
            for name, of in header.items() if name != "__metadata__"}


class Checkpoints(unittest.TestCase):
    def goes_on(self, more, ranks, ranks_after):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(folder, more)
            run.train(ranks, SAVED_AFTER, "--checkpoint", run.folder / "saved")
            losses = run.train(ranks_after, STEPS, "--resume", run.folder / "saved")
            self.assertEqual(len(losses), STEPS - SAVED_AFTER)
            reader = Reader(run.folder / "saved")
            self.assertEqual(reader.position, Position(SAVED_AFTER, SAVED_AFTER, SAVED_AFTER * 4))
            parameters = list(reader.parameters())
            tool("checkpoint", "export", run.folder / "saved", run.folder / "weights.safetensors", "--dtype", "fp32")
            exported = safetensors(run.folder / "weights.safetensors")
            self.assertEqual({each.name for each in parameters}, set(exported))
            for each in parameters:
                self.assertTrue((each.states["master"]() == exported[each.name]).all(), each.name)
            written = write(run.folder / "again", parameters, reader.position, "AdamW", "a test")
            self.assertIn("every byte as it was written", tool("checkpoint", "verify", written).stdout)
            if more is not BF16_MASTERS:  # its states are converted to fp32
                difference = tool("checkpoint", "diff", run.folder / "saved", written).stdout
                self.assertIn("parameters compared", difference)
                self.assertNotIn("state of parameter", difference)
                self.assertEqual(run.train(ranks_after, STEPS, "--resume", run.folder / "again"), losses)

    def test_train_gpt_goes_on_with_the_same_bits(self):
        self.goes_on(PLAIN, 1, 2)
        self.goes_on(PLAIN, 4, 2)

    def test_states_of_two_bytes_are_read(self):
        self.goes_on(BF16_MASTERS, 2, 2)

    def test_parts_of_tensor_ranks_are_joined(self):
        self.goes_on(TENSOR, 4, 4)

    def test_damage_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            states = {"master": lambda: numpy.arange(1000, dtype=numpy.float32)}
            written = write(folder, [Parameter("a", (1000,), states)], Position(1, 1, 1), "SGD", "a test")
            self.assertEqual(next(Reader(folder).parameters()).states["master"]()[999], 999)
            file = written / "place_00000.safetensors"
            data = bytearray(file.read_bytes())
            data[4096] ^= 1
            file.write_bytes(data)
            with self.assertRaisesRegex(Wrong, "place_00000.safetensors is damaged in MiB 0"):
                next(Reader(folder).parameters()).states["master"]()
            record = written / "checkpoint.json"
            record.write_text(record.read_text().replace('"step":1', '"step":2'))
            with self.assertRaisesRegex(Wrong, "checkpoint.json is damaged: hash mismatch"):
                Reader(folder)

    def test_many_mebibytes(self):
        with tempfile.TemporaryDirectory() as folder:
            random = numpy.random.default_rng(0)
            values = {name: random.standard_normal((rows, 1024), dtype=numpy.float32)
                      for name, rows in (("a", 300), ("b", 1), ("c", 777))}
            write(folder, (Parameter(name, of.shape, {"master": lambda of=of: of, "momentum_buffer": lambda of=of: -of})
                           for name, of in values.items()), Position(7, 6, 28), "SGD", "a test")
            for each in Reader(folder).parameters():
                self.assertTrue((each.states["momentum_buffer"]() == -values[each.name]).all())
            self.assertEqual(tool("checkpoint", "verify", folder).returncode, 0)

    def test_wrong_requests_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            def one(name="a", shape=(2,)):
                return Parameter(name, shape, {"frozen": lambda: numpy.zeros(2, numpy.float32)})
            for parameters, why in (([], "no parameters"), ([one(), one()], "a occurs twice"),
                                    ([one(shape=(0,))], "at least one element"), ([one(shape=(3,))], "has shape")):
                with self.assertRaisesRegex(Wrong, why):
                    write(folder, parameters, Position(1, 1, 1), "SGD", "a test")
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            write(pathlib.Path(folder) / "good", [one()], Position(1, 1, 1), "SGD", "a test")
            with self.assertRaisesRegex(Wrong, "step_00000001 exists"):
                write(pathlib.Path(folder) / "good", [one()], Position(1, 1, 1), "SGD", "a test")
            with self.assertRaisesRegex(Wrong, "is not a checkpoint"):
                Reader(folder)

    def test_names_change_by_rules_in_turn(self):
        parameters = [Parameter(name, (1,), {}) for name in ("module.a", "module.lm_head.weight", "b")]
        names = [each.name for each in renamed(parameters, [("^module\\.", ""), ("^lm_head\\.weight$", "")])]
        self.assertEqual(names, ["a", "b"])


if __name__ == "__main__":
    need("numpy", "xxhash")
    import numpy
    from lib.zeroth_checkpoint import Parameter, Position, Reader, Wrong, renamed, write
    unittest.main()
