# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check.sh --rehearse: all of a check but the GPU. The environment variable ZEROTH_BUILD names the build."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ZEROTH_BUILD", ROOT / "build/test"))
sys.path.insert(0, str(ROOT / "scripts"))

from lib import gpu_cases, gpu_check, gpu_figures  # noqa: E402
from lib.records import ReportError  # noqa: E402

NAMES = [case.name for case in gpu_cases.cases_for([["NVIDIA H100 80GB HBM3", "81559 MiB", "580.1"]])]
TESTS = ["cuda_device", "cuda_memory", "gpu_main", "nccl_memory", "train_gpt_gpu_algorithms"]


def rehearse(folder, *words, build=BUILD, **more):
    environment = dict(os.environ, ZEROTH_BUILD=str(build))
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run([str(ROOT / "scripts/gpu_check.sh"), "--rehearse", *words, str(folder)], capture_output=True, text=True, check=False,
                          env=environment | more)


def written(folder):
    return json.loads((folder / "gpu_check.json").read_text())


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.place = Path(place.name).resolve()
        cls.first = cls.place / "first"
        cls.ended = rehearse(cls.first)

    def again(self):
        """A folder like that of the first rehearsal."""
        folder = self.place / self.id().rsplit(".", 1)[-1]
        shutil.copytree(self.first, folder)
        return folder

    def test_all_parts_run(self):
        self.assertEqual(self.ended.returncode, 0, self.ended.stdout + self.ended.stderr)
        result = written(self.first)
        self.assertEqual({kind: sorted(names) for kind, names in result["tests"].items()},
                         {"passed": TESTS, "failed": [], "skipped": [], "for more GPUs": ["gpu_main_three_gpus"]})
        self.assertEqual({(m["communicator"], m["ranks"]) for m in result["memory"]}, {("local", 1), ("local", 4), ("nccl", 1)})
        self.assertEqual(len(result["adamw"]), 7)
        self.assertEqual((result["layers"][0]["what"], result["layers"][-1]["what"]), ("embedding", "all"))
        self.assertEqual([t["name"] for t in result["training"]], NAMES)
        self.assertEqual([t["name"] for t in result["training"] if "failed" in t or len(t["losses"]) != (6 if t["step_graph"] else 3)], [])
        self.assertEqual({(t["ranks"], t["gpus"], t["nccl"]) for t in result["training"]}, {(1, 1, False), (4, 2, False), (2, 2, True)})
        self.assertEqual([(run["errors"], run["failed"]) for run in result["sanitizer"]], [(0, "")] * 4)
        self.assertEqual(result["problems"], [])

    def test_runs_use_the_algorithms_that_were_measured(self):
        for model in ("124M", "1.5B"):
            math = [json.loads((self.first / f"{model}_stage0_1{ending}.jsonl").read_text().splitlines()[0])["math"] for ending in ("", "_algorithms")]
            self.assertEqual(math[0], "cuBLASLt")
            self.assertRegex(math[1], "^cuBLASLt, algorithms [0-9a-f]{16}$")
            self.assertIn(f"| {model}, fastest algorithms | 0 | 1 on 1 |", self.ended.stdout)

    def test_it_says_that_nothing_was_measured(self):
        table = (self.first / "gpu_check.md").read_text()
        self.assertTrue(table.startswith("# REHEARSAL without a GPU: no figure here was measured on one\n"), table)
        self.assertEqual(next(iter(written(self.first))), "rehearsal")
        self.assertLess(min(line["ratio"] for line in written(self.first)["adamw"]), gpu_check.LEAST_OF_A_COPY)  # and no aim is missed
        with tempfile.TemporaryDirectory() as measured:
            shutil.copy(self.first / "gpu_check.json", Path(measured) / "gpu.json")
            (Path(measured) / "gpu_peers.jsonl").write_text("{}\n")
            with self.assertRaisesRegex(ReportError, "gpu.json: is a rehearsal without a GPU: .*; it must be a check of a GPU"):
                gpu_figures.read(Path(measured))
        ended = rehearse(ROOT / "docs/measured/rehearsal")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is for what was measured", ended.stderr)
        self.assertFalse((ROOT / "docs/measured/rehearsal").exists())

    def test_it_goes_on_where_it_stopped(self):
        folder = self.again()
        before = (folder / "tests/cuda_memory.log").stat().st_mtime_ns
        tests = (folder / "tests.xml").read_text()
        begin = tests.index('<testcase name="cuda_device"')  # did not run, say
        (folder / "tests.xml").write_text(tests[:begin] + tests[tests.index("<testcase", begin + 1):])
        ended = rehearse(folder, "--only", "tests")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("cuda_device: passed", ended.stdout)
        self.assertNotIn("cuda_memory: passed", ended.stdout)
        self.assertEqual((folder / "tests/cuda_memory.log").stat().st_mtime_ns, before)
        self.assertEqual(sorted(written(folder)["tests"]["passed"]), TESTS)

    def test_a_run_that_fails_is_reported_and_the_others_run(self):
        folder, build = self.again(), self.place / "build"
        (build / "rehearsal/bin").mkdir(parents=True)
        for program in (BUILD / "rehearsal/bin").iterdir():
            (build / "rehearsal/bin" / program.name).symlink_to(program.resolve())
        train_gpt = build / "rehearsal/bin/train_gpt"
        real = train_gpt.resolve()
        train_gpt.unlink()
        train_gpt.write_text(f'#!/bin/sh\ncase "$*" in *124M_stage2_all.jsonl*) echo out of memory; exit 7;; esac\nexec {real} "$@"\n')
        train_gpt.chmod(0o755)
        ended = rehearse(folder, "--only", "training,sanitizer", "--minutes", "5", build=build, CUDA_VISIBLE_DEVICES="1")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("error: 124M_stage2_all ended with status 7", ended.stderr)
        result = written(folder)
        self.assertEqual(len(result["problems"]), 1, result["problems"])
        self.assertRegex(result["problems"][0], "^124M_stage2_all failed: .*: out of memory; 124M_stage2_all ended with status 7")
        self.assertEqual([t["name"] for t in result["training"] if "failed" in t], ["124M_stage2_all"])
        self.assertEqual({(t["ranks"], t["gpus"], t["nccl"]) for t in result["training"] if "failed" not in t},
                         {(1, 1, False), (4, 1, False), (1, 1, True)})
        self.assertEqual((len(result["gpus"]), len(result["sanitizer"])), (1, 4))

    def test_other_gpus_are_not_there(self):
        ended = rehearse(self.place / "none", CUDA_VISIBLE_DEVICES="2")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("there is no GPU here (nvidia-smi says: No devices were found)", ended.stderr)


if __name__ == "__main__":
    unittest.main()
