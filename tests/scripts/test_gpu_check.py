"""The figures of scripts/gpu_check.sh, from runs that are made up; and what it says where there is no GPU."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import gpu_check  # noqa: E402

BYTES = {"parameters": 1, "gradients": 2, "optimizer": 3, "slots": 0, "scratch": 0, "total": 6}


def report(case, gpus, tokens_per_s):
    shape = gpu_check.GPT2[case.model]
    lines = [
        {
            "record": "run",
            "world": gpu_check.ranks_of(case, gpus),
            "model": {name: getattr(shape, name) for name in ("layers", "channels", "context", "vocabulary")},
        }
    ]
    for step in range(1, 11):
        lines.append({"record": "step", "step": step, "loss": 11 - step / 10, "step_ms": 500.0 if step == 1 else 100.0,
                      "tokens_per_s": 1.0 if step == 1 else tokens_per_s, "exposed_comm_ms": 2.5})
    lines.append({"record": "memory", "rank": 0, "planned": BYTES, "measured_peak": BYTES})
    return "".join(json.dumps(line) + "\n" for line in lines)


def fill(folder, gpu="NVIDIA H100 80GB HBM3", gpus=1, junit='<testcase name="a" status="run"/>'):
    (folder / "gpus.csv").write_text(f"{gpu}, 81559 MiB, 580.1\n" * gpus)
    (folder / "tests.xml").write_text(f"<testsuite>{junit}</testsuite>")
    (folder / "adamw.jsonl").write_text(
        json.dumps({"gradient": "fp32", "parameter": "bf16", "gb_per_s": 2800.4, "ratio": 0.93}) + "\n")
    for case in gpu_check.CASES:
        (folder / f"{case.name}.jsonl").write_text(report(case, gpus, 1e5))


class Figures(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def table(self):
        return subprocess.run([sys.executable, "-B", str(ROOT / "scripts/lib/gpu_check.py"), "table", "--folder", str(self.folder)],
                              capture_output=True, text=True, check=False)

    def test_mfu_is_products_done_of_those_there_could_be(self):
        fill(self.folder)
        result = gpu_check.collect(self.folder)
        first = result["training"][0]
        parameters = 12 * 12 * 768**2 + 50304 * 768
        per_token = 6 * parameters + 12 * 12 * 768 * 1024
        self.assertAlmostEqual(first["mfu"], 1e5 * per_token / 989e12)
        self.assertEqual(first["step_ms"], 100)  # the first step is left out
        self.assertEqual((first["first_loss"], first["last_loss"]), (10.9, 10.0))
        self.assertEqual({t["ranks"] for t in result["training"]}, {1, 4})
        self.assertEqual({t["gpus"] for t in result["training"]}, {1})

    def test_several_gpus_have_as_much_more_to_give(self):
        fill(self.folder, gpus=8)
        last = gpu_check.collect(self.folder)["training"][-1]
        self.assertEqual((last["ranks"], last["gpus"]), (8, 8))
        parameters = 12 * 12 * 768**2 + 50304 * 768
        self.assertAlmostEqual(last["mfu"], 1e5 * (6 * parameters + 12 * 12 * 768 * 1024) / (8 * 989e12))

    def test_an_unknown_gpu_has_no_mfu(self):
        fill(self.folder, gpu="NVIDIA Something")
        self.assertIsNone(gpu_check.collect(self.folder)["training"][0]["mfu"])
        self.assertIn("unknown peak", self.table().stdout)

    def test_a_clean_check_is_written_as_json_and_as_a_table(self):
        fill(self.folder)
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("| fp32, bf16 | 2800 | 0.930 |", ended.stdout)
        self.assertIn("| 1.5B, recomputed | 0 | 1 on 1 | 100.0 | 2.5 | 100000 |", ended.stdout)
        self.assertEqual((self.folder / "gpu_check.md").read_text(), ended.stdout)
        self.assertEqual(json.loads((self.folder / "gpu_check.json").read_text())["tests"]["passed"], ["a"])

    def test_skipped_and_failed_tests_and_missing_runs_are_no_success(self):
        for junit in ('<testcase name="b" status="fail"/>', '<testcase name="b" status="notrun"><skipped/></testcase>'):
            fill(self.folder, junit=junit)
            ended = self.table()
            self.assertEqual(ended.returncode, 1)
            self.assertIn(": b", ended.stdout)
        fill(self.folder)
        (self.folder / f"{gpu_check.CASES[1].name}.jsonl").unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("failed: see 1.5B_stage0_1.log", ended.stdout)

    def test_a_command_shares_gpus_only_where_it_must(self):
        shared = gpu_check.command(gpu_check.CASES[-1], 1, self.folder, "text", "train_gpt")
        self.assertIn("--share-devices", shared)
        self.assertEqual(shared[shared.index("--ranks") + 1], "4")
        self.assertNotIn("--share-devices", gpu_check.command(gpu_check.CASES[-1], 8, self.folder, "text", "train_gpt"))
        self.assertNotIn("--share-devices", gpu_check.command(gpu_check.CASES[0], 1, self.folder, "text", "train_gpt"))


class WithoutGpu(unittest.TestCase):
    def check(self, nvidia_smi):
        with tempfile.TemporaryDirectory() as place:
            if nvidia_smi is not None:
                tool = Path(place) / "nvidia-smi"
                tool.write_text(nvidia_smi)
                tool.chmod(0o755)
            out = Path(place) / "out"
            words = [str(ROOT / "scripts/gpu_check.sh"), str(out)]
            environment = dict(os.environ, PATH=f"{place}:/usr/bin:/bin")
            ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
            self.assertEqual(ended.returncode, 3, ended.stderr)
            self.assertIn("there is no GPU here", ended.stderr)
            self.assertFalse(out.exists())
            return ended.stderr

    def test_a_driver_that_finds_none_is_quoted(self):
        self.assertIn("No devices were found", self.check("#!/bin/sh\necho No devices were found\nexit 6\n"))

    def test_no_driver_at_all(self):
        self.check("#!/bin/sh\necho nvidia-smi: not found\nexit 127\n")

    def test_a_list_that_is_empty_is_none(self):
        self.check("#!/bin/sh\nexit 0\n")


if __name__ == "__main__":
    unittest.main()
