# SPDX-License-Identifier: Apache-2.0
"""The figures of scripts/gpu_check.sh from sample runs, and its messages without a GPU."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from lib import gpu_cases, gpu_check, gpu_tests  # noqa: E402

GIB = 2**30
CASES = gpu_cases.cases_for([["NVIDIA H100 80GB HBM3", "81559 MiB", "580.1"]])
THREADS = [case for case in CASES if not case.nccl]
BYTES = {"parameters": GIB, "gradients": 2 * GIB, "optimizer": 3 * GIB, "slots": 0, "scratch": 0, "total": 6 * GIB}


LAYERS = [{"what": "attention", "times": 48, "us": 100.0, "us_of_all": 4800.0, "tflop_per_s": 200.4},
          {"what": "layer norm", "times": 96, "us": 12.5, "us_of_all": 1200.0, "gb_per_s": 2500.6},
          {"what": "all", "us_of_all": 6000.0, "tflop_per_s": 160.0}]
MEMORY = {"communicator": "nccl", "ranks": 1, "stage": 3, "before_bytes": GIB, "contexts_bytes": GIB // 2, "communicators_bytes": GIB // 4,
          "grown_bytes": 3 * GIB, "planned_bytes": 2 * GIB}


def report(case, gpus, tokens_per_s, measured=None, last_loss=10.0):
    shape = gpu_cases.GPT2[case.model]
    lines = [
        {
            "record": "run",
            "world": gpu_cases.ranks_of(case, gpus),
            "model": {name: getattr(shape, name) for name in ("layers", "channels", "context", "vocabulary")},
        }
    ]
    for step in range(1, 11):
        lines.append({"record": "step", "step": step, "loss": last_loss if step == 10 else 11 - step / 10, "step_ms": 500.0 if step == 1 else 100.0,
                      "tokens_per_s": 1.0 if step == 1 else tokens_per_s, "exposed_comm_ms": 2.5})
    lines.append({"record": "memory", "rank": 0, "planned": BYTES, "measured_peak": measured or BYTES})
    return "".join(json.dumps(line) + "\n" for line in lines)


def measure(folder):
    """Leaves the files of measured algorithms."""
    for case in CASES:
        if case.algorithms:
            gpu_cases.algorithms_file(case, folder).write_text("{}")


def fill(folder, gpu="NVIDIA H100 80GB HBM3", gpus=1, junit='<testcase name="nccl_memory_gpu" status="run"/>'):
    (folder / "gpus.csv").write_text(f"{gpu}, 81559 MiB, 580.1\n" * gpus)
    (folder / "tests.xml").write_text(f"<testsuite>{junit}</testsuite>")
    (folder / "adamw.jsonl").write_text(
        json.dumps({"gradient": "fp32", "parameter": "bf16", "gb_per_s": 2800.4, "copy_gb_per_s": 3011.2, "ratio": 0.93}) + "\n")
    (folder / "commit.txt").write_text("1234abc-dirty\n")
    (folder / "memory.jsonl").write_text(json.dumps(MEMORY) + "\n")
    (folder / "layers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LAYERS))
    measure(folder)
    for case in gpu_cases.cases_for(gpu_cases.gpus_of(folder)):
        (folder / f"{case.name}.jsonl").write_text(report(case, gpus, 1e5))


class Figures(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def table(self):
        return subprocess.run([sys.executable, "-B", str(ROOT / "scripts/lib/gpu_check.py"), "table", "--folder", str(self.folder)],
                              capture_output=True, text=True, check=False)

    def test_mfu_is_the_rate_of_products_over_the_peak(self):
        fill(self.folder)
        result = gpu_check.collect(self.folder)
        first = result["training"][0]
        parameters = 12 * 12 * 768**2 + 50304 * 768
        per_token = 6 * parameters + 12 * 12 * 768 * 1024
        self.assertAlmostEqual(first["mfu"], 1e5 * per_token / 989e12)
        self.assertEqual(first["step_ms"], 100)  # the first step is left out
        self.assertEqual((first["losses"][0], first["losses"][-1]), (10.9, 10.0))
        self.assertEqual({(t["ranks"], t["nccl"]) for t in result["training"]}, {(1, False), (4, False), (1, True)})
        self.assertEqual({t["gpus"] for t in result["training"]}, {1})

    def test_the_peaks_of_several_gpus_add_up(self):
        fill(self.folder, gpus=8)
        last = gpu_check.collect(self.folder)["training"][-1]
        self.assertEqual((last["ranks"], last["gpus"]), (8, 8))
        parameters = 12 * 12 * 768**2 + 50304 * 768
        self.assertAlmostEqual(last["mfu"], 1e5 * (6 * parameters + 12 * 12 * 768 * 1024) / (8 * 989e12))

    def test_an_unknown_gpu_has_no_mfu(self):
        fill(self.folder, gpu="NVIDIA Something")
        self.assertIsNone(gpu_check.collect(self.folder)["training"][0]["mfu"])
        ended = self.table()
        self.assertIn("unknown peak", ended.stdout)
        self.assertIn("- missed aim: 1.5B_stage0_1 has an unknown MFU", ended.stdout)
        self.assertEqual(ended.returncode, 1)

    def test_a_clean_check_is_written_as_json_and_as_a_table(self):
        fill(self.folder)
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("| fp32, bf16 | 2800 | 3011 | 0.930 |", ended.stdout)
        self.assertIn("| nccl | 3 | 1 | 1024.0 | 512.0 | 256.0 | 3072.0 | 2048.0 |", ended.stdout)
        self.assertIn("Commit 1234abc-dirty.", ended.stdout)
        self.assertIn("| 1.5B | 0 | 1 on 1 | 100.0 | 2.5 | 100000 | 1.039 | 10 |", ended.stdout)
        self.assertIn("| attention | 48 | 100.0 | 200 |  | 0.800 |", ended.stdout)
        self.assertIn("| layer norm | 96 | 12.5 |  | 2501 | 0.200 |", ended.stdout)
        self.assertIn("| all | 1 | 6000.0 | 160 |  | 1.000 |", ended.stdout)
        self.assertIn("| 10 | 6144.0 | 6144.0 |", ended.stdout)
        self.assertIn("of 989 TFLOP/s for each GPU", ended.stdout)
        self.assertIn("No problems", ended.stdout)
        self.assertEqual((self.folder / "gpu_check.md").read_text(), ended.stdout)
        written = json.loads((self.folder / "gpu_check.json").read_text())
        self.assertEqual(written["tests"]["passed"], ["nccl_memory_gpu"])
        self.assertEqual(written["commit"], "1234abc-dirty")
        self.assertEqual(written["memory"], [MEMORY])

    def test_a_gpu_with_little_memory_recomputes_activations(self):
        large, small = (gpu_cases.cases_for([["NVIDIA A100", f"{mib} MiB", "580"]]) for mib in (81920, 40960))
        self.assertEqual([case.name for case in large if not case.offload and case.name != "1.5B_stage0_1_algorithms"], [case.name for case in small])
        self.assertEqual([(case.name, case.recompute) for case in small if case.recompute], [("1.5B_stage0_1", True)])
        self.assertFalse(any(case.recompute for case in large))

    def adamw(self, *lines):
        fill(self.folder)
        (self.folder / "adamw.jsonl").write_text("".join(
            json.dumps({"gradient": "bf16", "parameter": "bf16", "gb_per_s": 1.0, "copy_gb_per_s": 1.0} | line) + "\n" for line in lines))
        return self.table()

    def test_an_adamw_below_its_aim_is_named_and_fails_the_check(self):
        ended = self.adamw({"master": "fp32", "moments": "fp32", "ratio": 0.8999})
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- missed aim: AdamW (bf16, bf16) has 0.900 of a copy's bandwidth, not 0.90", ended.stdout)
        ended = self.adamw({"master": "fp32", "moments": "fp32", "ratio": 0.90},
                           {"master": "bf16", "moments": "bf16", "ratio": 0.5})  # of which nothing is asked
        self.assertEqual(ended.returncode, 0, ended.stdout)
        ended = self.adamw({"master": "bf16", "moments": "bf16", "ratio": 0.95})
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- missed aim: AdamW with fp32 masters was not measured", ended.stdout)

    def test_a_large_model_below_its_aim_is_named_and_fails_the_check(self):
        case = CASES[1]
        self.assertEqual((case.model, case.stage, case.ranks), ("1.5B", 0, 1))
        fill(self.folder)
        per_token = gpu_check.flops_per_token({"layers": 48, "channels": 1600, "context": 1024, "vocabulary": 50304})
        for mfu, status in ((0.451, 0), (0.449, 1)):
            (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, mfu * 989e12 / per_token))
            ended = self.table()
            self.assertEqual(ended.returncode, status, ended.stdout)
        self.assertIn("- missed aim: 1.5B_stage0_1 has an MFU of 0.449, not 0.45", ended.stdout)

    def test_tests_without_figures_of_memory_fail_the_check(self):
        fill(self.folder)
        (self.folder / "memory.jsonl").unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- no test said how much memory the driver reports", ended.stdout)

    def test_layers_that_were_not_measured_fail_the_check(self):
        fill(self.folder)
        (self.folder / "layers.jsonl").unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- no layer was measured", ended.stdout)

    def test_skipped_and_failed_tests_and_missing_runs_fail_the_check(self):
        for junit in ('<testcase name="b" status="fail"/>', '<testcase name="b" status="notrun"><skipped/></testcase>'):
            fill(self.folder, junit=junit)
            ended = self.table()
            self.assertEqual(ended.returncode, 1)
            self.assertIn(": b", ended.stdout)
        fill(self.folder)
        (self.folder / f"{CASES[1].name}.jsonl").unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("1.5B_stage0_1.jsonl: No such file or directory (see 1.5B_stage0_1.log)", ended.stdout)
        self.assertIn("| 124M | 3 | 4 on 1 | 100.0 |", ended.stdout)  # the others are there all the same

    def test_a_truncated_report_is_a_failed_run_and_does_not_end_the_table(self):
        fill(self.folder)
        cut = self.folder / f"{CASES[0].name}.jsonl"
        cut.write_text("\n".join(cut.read_text().splitlines()[:-1]) + "\n")
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("no memory was recorded", ended.stdout)
        self.assertIn("| 124M | 3 | 4 on 1 | 100.0 |", ended.stdout)

    def test_a_library_without_nccl_fails_the_check(self):
        fill(self.folder, junit='<testcase name="cuda_memory_gpu" status="run"/>')
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- NCCL was not tested", ended.stdout)

    def test_a_suite_of_which_nothing_ran_fails_the_check(self):
        fill(self.folder, junit="")
        self.assertIn("- no test passed", self.table().stdout)

    def test_a_test_for_more_gpus_than_there_are_is_listed_and_does_not_fail_the_check(self):
        says = "<skipped/><system-out>skipped: needs 2 GPUs, and 1 are there\n</system-out>"
        fill(self.folder, junit=f'<testcase name="a" status="run"/><testcase name="nccl_gpu" status="notrun">{says}</testcase>')
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("- for more GPUs: nccl_gpu", ended.stdout)
        source = (ROOT / "tests/support/gpu_main.cpp").read_text()
        self.assertIn('"skipped: needs " << fewest << " GPUs, and " << devices << " are there', source)

    def test_a_driver_that_hides_all_gpus_from_the_tests_fails_the_check(self):
        says = "<skipped/><system-out>skipped: needs 1 GPUs, and 0 are there\n</system-out>"
        fill(self.folder, junit=f'<testcase name="a" status="run"/><testcase name="b" status="notrun">{says}</testcase>')
        self.assertEqual(self.table().returncode, 1)

    def test_memory_that_differs_from_the_plan_is_shown_and_fails_the_check(self):
        fill(self.folder)
        case = CASES[2]
        more = dict(BYTES, slots=GIB, total=7 * GIB)
        (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 1e5, measured=more))
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"- {case.name}: {7 * GIB} bytes measured, {6 * GIB} planned", ended.stdout)
        self.assertIn("| 6144.0 | 7168.0 |", ended.stdout)

    def test_stages_that_train_differently_are_named_with_the_step(self):
        fill(self.folder)
        case = THREADS[-1]
        (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 1e5, last_loss=10.0000001))
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- the losses of 124M_stage0_all and 124M_stage3_all differ from step 10 on", ended.stdout)

    def test_nccl_may_sum_in_another_order_at_each_stage(self):
        fill(self.folder)
        for case in CASES:
            if case.nccl:
                last_loss = 10 + case.stage * 1e-7
                (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 1e5, last_loss=last_loss))
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("| 124M | 3 | 1 on 1, NCCL |", ended.stdout)

    def test_launched_steps_have_the_losses_of_those_that_are_not_recorded(self):
        fill(self.folder)
        case = next(case for case in CASES if case.step_graph and case.stage == 3)
        (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 1e5, last_loss=10.0000001))
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("| 124M, launched as graphs | 3 | 1 on 1, NCCL |", ended.stdout)
        self.assertIn("- the losses of 124M_stage3_all_nccl and 124M_stage3_all_nccl_graph differ from step 10 on", ended.stdout)

    def test_other_models_and_batches_may_train_differently(self):
        fill(self.folder)
        case = CASES[0]
        (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 1e5, last_loss=9.5))
        self.assertEqual(self.table().returncode, 0)

    def test_a_gpu_has_the_peak_of_the_longest_matching_name(self):
        for gpu, peak in (("NVIDIA H100 PCIe", 756e12), ("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H200", 989e12),
                          ("NVIDIA H200 NVL", 835e12), ("NVIDIA GH200 480GB", 989e12), ("NVIDIA B200", 2250e12), ("NVIDIA GB200", 2500e12),
                          ("NVIDIA A100-SXM4-80GB", 312e12)):
            self.assertEqual(gpu_check.peak_of(gpu), peak, gpu)

    def run_cases(self, program, gpus=1):
        tool = self.folder / "train_gpt"
        tool.write_text(program)
        tool.chmod(0o755)
        measure(self.folder)
        (self.folder / "gpus.csv").write_text("NVIDIA H100 80GB HBM3, 81559 MiB, 580.1\n" * gpus)
        words = [sys.executable, "-B", str(ROOT / "scripts/lib/gpu_check.py"), "run", "--folder", str(self.folder)]
        return subprocess.run([*words, "--text", "text", "--program", str(tool)], capture_output=True, text=True, check=False)

    def test_runs_get_their_stage_files_and_keep_their_logs(self):
        ended = self.run_cases('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for case in CASES:
            file = json.loads((self.folder / f"{case.name}.json").read_text())
            self.assertEqual(file["zero_optimization"]["stage"], case.stage)
            self.assertEqual(file["train_micro_batch_size_per_gpu"], case.micro_batch)
            self.assertEqual(file["gradient_accumulation_steps"], case.accumulate)
            words = (self.folder / f"{case.name}.log").read_text().splitlines()
            self.assertEqual(words[words.index("--config") + 1], str(self.folder / f"{case.name}.json"))
            self.assertEqual("--recompute" in words, case.recompute)
            given = words[words.index("--algorithms") + 1] if "--algorithms" in words else None
            self.assertEqual(given, str(self.folder / f"algorithms_{case.model}.json") if case.algorithms else None)

    def test_algorithms_are_measured_for_the_runs_that_use_them(self):
        tool = self.folder / "bench_cuda_gpt"
        tool.write_text(f'#!/bin/sh\necho "$@" >>{self.folder}/called\nwhile [ $# -gt 2 ]; do shift; done\necho {{}} >"$2"\n')
        tool.chmod(0o755)
        (self.folder / "gpus.csv").write_text("NVIDIA H100 80GB HBM3, 81559 MiB, 580.1\n")
        words = [sys.executable, "-B", str(ROOT / "scripts/lib/gpu_check.py"), "algorithms", "--folder", str(self.folder), "--program", str(tool)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        files = {model: self.folder / f"algorithms_{model}.json" for model in ("124M", "1.5B")}
        self.assertEqual((self.folder / "called").read_text().splitlines(),
                         [f"{model} 16 --context 1024 --vocabulary 50304 --algorithms {file}" for model, file in files.items()])
        for model in files:  # one run with them, and the same run without
            with_them = [case for case in CASES if case.algorithms and case.model == model]
            without = [replace(case, algorithms=False) for case in with_them]
            self.assertEqual((len(with_them), without), (1, [case for case in CASES if case in without]))
        tool.write_text("#!/bin/sh\necho no algorithm\nexit 4\n")
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("error: algorithms_1.5B ended with status 4", ended.stderr)
        self.assertFalse(files["124M"].exists())  # nor what was measured before

    def test_runs_with_algorithms_are_in_the_table_and_left_out_if_there_are_none(self):
        fill(self.folder)
        case = next(case for case in CASES if case.algorithms and case.model == "124M")
        (self.folder / f"{case.name}.jsonl").write_text(report(case, 1, 2e5, last_loss=10.0000001))  # other roundings
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("| 124M, fastest algorithms | 0 | 1 on 1 | 100.0 | 2.5 | 200000 |", ended.stdout)
        gpu_cases.algorithms_file(case, self.folder).unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- cuBLASLt's algorithms were not measured for 124M (bench_cuda_gpt --algorithms)", ended.stdout)
        self.assertNotIn("| 124M, fastest algorithms |", ended.stdout)
        self.assertNotIn("failed:", ended.stdout)

    def test_a_rehearsal_says_so_first_and_misses_no_aim(self):
        fill(self.folder, gpu="Made-up H100")
        (self.folder / "adamw.jsonl").write_text(json.dumps({"gradient": "bf16", "parameter": "bf16", "gb_per_s": 1.0, "copy_gb_per_s": 9.0, "ratio": 0.1}) + "\n")
        ended = self.table()
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertTrue(ended.stdout.startswith("# REHEARSAL without a GPU: no figure here was measured on one\n"), ended.stdout)
        self.assertIn("| bf16, bf16 | 1 | 9 | 0.100 |", ended.stdout)
        self.assertNotIn("aims are met", ended.stdout)
        self.assertEqual(next(iter(json.loads((self.folder / "gpu_check.json").read_text()))), "rehearsal")
        (self.folder / "adamw.jsonl").unlink()
        self.assertIn("AdamW with fp32 masters was not measured", self.table().stdout)
        fill(self.folder)
        self.assertNotIn("rehearsal", gpu_check.collect(self.folder))

    def test_over_nccl_there_is_a_process_for_each_gpu_as_torchrun_starts_them(self):
        program = ('#!/bin/sh\ncase "$*" in *"--comm nccl"*) echo "rank $RANK of $WORLD_SIZE, GPU $LOCAL_RANK of $LOCAL_WORLD_SIZE,'
                   ' at $MASTER_ADDR:${MASTER_PORT:+port} $*";; *) echo "${RANK:-alone} $*";; esac\n')
        self.assertEqual(self.run_cases(program, gpus=2).returncode, 0)
        for case in CASES:
            said = sorted((self.folder / f"{case.name}.log").read_text().splitlines())
            if case.nccl:
                self.assertEqual([line.split(" --")[0] for line in said],
                                 [f"rank {rank} of 2, GPU {rank} of 2, at 127.0.0.1:port" for rank in range(2)])
                self.assertNotIn("--ranks", said[0])
            else:
                self.assertEqual([line.split()[0] for line in said], ["alone"])

    def test_a_process_that_fails_is_a_failed_run(self):
        program = '#!/bin/sh\n[ "${RANK:-0}" = 1 ] && exit 7\nexit 0\n'
        ended = self.run_cases(program, gpus=2)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("error: 124M_stage0_all_nccl ended with status 7", ended.stderr)
        self.assertEqual(ended.stderr.count("error:"), sum(case.nccl for case in CASES))

    def test_a_run_that_fails_is_counted_and_leaves_no_older_report_in_its_place(self):
        fill(self.folder)
        failing = CASES[1].name
        ended = self.run_cases(f'#!/bin/sh\ncase "$*" in *{failing}.jsonl*) echo no memory; exit 1;; esac\n')
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"error: {failing} ended with status 1", ended.stderr)
        self.assertEqual(ended.stderr.count("error:"), 1)
        self.assertEqual((self.folder / f"{failing}.log").read_text(), f"no memory\n{failing} ended with status 1\n")
        for case in CASES:
            self.assertFalse((self.folder / f"{case.name}.jsonl").exists())

    def test_a_run_that_hangs_is_given_up_and_the_others_run(self):
        slow = CASES[0].name
        most = gpu_cases.MOST_SECONDS
        self.addCleanup(setattr, gpu_cases, "MOST_SECONDS", most)
        gpu_cases.MOST_SECONDS = 3
        tool = self.folder / "train_gpt"
        tool.write_text(f'#!/bin/sh\ncase "$*" in *{slow}*) exec sleep 60;; esac\n')
        tool.chmod(0o755)
        (self.folder / "gpus.csv").write_text("NVIDIA H100 80GB HBM3, 81559 MiB, 580.1\n")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(gpu_cases.run_cases(self.folder, "text", str(tool)), 1)
        self.assertIn(f"error: {slow} did not end within 3 s", said.getvalue())
        self.assertTrue((self.folder / f"{CASES[-1].name}.log").exists())

    def test_a_missing_program_is_a_failed_run(self):
        measure(self.folder)
        (self.folder / "gpus.csv").write_text("NVIDIA H100 80GB HBM3, 81559 MiB, 580.1\n")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            failed = gpu_cases.run_cases(self.folder, "text", str(self.folder / "none"))
        self.assertEqual(failed, len(CASES))
        self.assertIn("did not start", said.getvalue())

    def test_the_last_output_of_a_failed_run_is_in_the_table(self):
        fill(self.folder)
        case = CASES[1]
        (self.folder / f"{case.name}.jsonl").unlink()
        (self.folder / f"{case.name}.log").write_text("step 1\nerror: cudaMalloc | out of memory\n\nx ended with status 1\n")
        self.assertIn(f"(see {case.name}.log: error: cudaMalloc / out of memory; x ended with status 1)", self.table().stdout)

    def test_tests_that_were_not_run_leave_other_figures_in_the_table(self):
        fill(self.folder)
        (self.folder / "tests.xml").unlink()
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- no test passed", ended.stdout)
        self.assertIn("| 124M | 3 | 4 on 1 | 100.0 |", ended.stdout)

    def test_states_in_host_memory_train_the_same_over_their_steps(self):
        fill(self.folder)
        case = next(case for case in CASES if case.offload == "host")
        file = gpu_cases.stage_file(case)
        self.assertEqual(file["zero_optimization"]["offload_optimizer"], {"device": "cpu"})
        self.assertEqual(file["zeroth"]["offload_update"], "host")
        lines = report(case, 1, 1e5).splitlines()
        path = self.folder / f"{case.name}.jsonl"
        path.write_text("\n".join(lines[:5] + lines[-1:]) + "\n")  # four steps
        self.assertEqual(self.table().returncode, 0)
        other = json.loads(lines[3]) | {"loss": 10.5}
        path.write_text("\n".join(lines[:3] + [json.dumps(other), lines[4], lines[-1]]) + "\n")
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"- the losses of 1.5B_stage0_1 and {case.name} differ from step 3 on", ended.stdout)

    def test_the_suite_is_chosen_by_the_whole_label(self):
        self.assertIn('"-L", f"^{options.label}$"', (ROOT / "scripts/lib/gpu_tests.py").read_text())  # failed_gpu is another one

    def test_errors_of_a_sanitizer_are_reported(self):
        fill(self.folder)
        lines = [{"tool": "memcheck", "program": "a", "errors": 0, "failed": ""}, {"tool": "racecheck", "program": "b", "errors": 3, "failed": ""}]
        (self.folder / "sanitizer.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        ended = self.table()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("- compute-sanitizer's racecheck of b: 3 errors", ended.stdout)
        self.assertNotIn("memcheck of a:", ended.stdout)

    def test_a_command_shares_gpus_only_where_it_must(self):
        shared = gpu_cases.command(THREADS[-1], 1, self.folder, "text", "train_gpt")
        self.assertIn("--share-devices", shared)
        self.assertEqual(shared[shared.index("--ranks") + 1], "4")
        self.assertNotIn("--share-devices", gpu_cases.command(THREADS[-1], 8, self.folder, "text", "train_gpt"))
        self.assertNotIn("--share-devices", gpu_cases.command(CASES[0], 1, self.folder, "text", "train_gpt"))


class Script(unittest.TestCase):
    """scripts/gpu_check.sh with substitutes for the driver, CMake and CUDA."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.out = self.place / "out"
        self.tool("nvidia-smi", 'case "$*" in *compute_cap*) echo 9.0; echo 9.0;; *) echo "NVIDIA H100 80GB HBM3, 81559 MiB, 580.1";; esac')
        self.tool("nvcc", "exit 0")
        self.cmake("3.25.0")
        self.tool("ctest", "exit 8")
        self.tool("timeout", "exit 3")  # the benchmark's

    def tool(self, name, text):
        path = self.place / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def cmake(self, version, status=0):
        self.tool("cmake", f'[ "$1" = --version ] && echo "cmake version {version}" && exit 0\necho "$@" >>{self.place}/built\nexit {status}')

    def check(self, *words, **more):
        environment = dict(os.environ, PATH=f"{self.place}:/usr/bin:/bin", ZEROTH_INSTALL="no", **more)
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        return subprocess.run([str(ROOT / "scripts/gpu_check.sh"), *words], capture_output=True, text=True, check=False, env=environment)

    def test_the_build_has_what_is_run_for_the_gpus_of_this_machine(self):
        ended = self.check("--only", "build", str(self.out))
        self.assertEqual(ended.returncode, 1)  # nothing has run
        built = (self.place / "built").read_text().splitlines()
        self.assertEqual(built, ["--preset cuda -DZEROTH_WERROR=OFF -DCMAKE_CUDA_ARCHITECTURES=90-real",
                                 "--build --preset cuda --target zeroth_gpu_tests bench_cuda_adamw bench_cuda_gpt train_gpt"])
        self.check("--only", "build", str(self.out), CUDAARCHS="80")
        self.assertIn("--preset cuda -DZEROTH_WERROR=OFF", (self.place / "built").read_text().splitlines())

    def test_a_failed_build_ends_the_script(self):
        self.cmake("3.25.0", status=1)
        ended = self.check(str(self.out))
        self.assertEqual(ended.returncode, 1)
        self.assertFalse((self.out / "gpu_check.md").exists())

    def test_a_cmake_that_is_too_old_is_named(self):
        self.cmake("3.22.1")
        ended = self.check(str(self.out))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("CMake 3.25 or newer is required, found 3.22.1", ended.stderr)

    def test_every_failure_still_gives_a_table(self):
        ended = self.check("--only", "tests,adamw", str(self.out))
        self.assertEqual(ended.returncode, 1)
        table = (self.out / "gpu_check.md").read_text()
        self.assertIn("- no test passed", table)
        self.assertIn("- missed aim: AdamW with fp32 masters was not measured", table)
        self.assertEqual(json.loads((self.out / "gpu_check.json").read_text())["tests"]["passed"], [])
        self.assertFalse((self.place / "built").exists())

    def test_unknown_parts_are_refused(self):
        for words in (["--only", "everything", "out"], ["--only"], ["--only", "", "out"], [], ["--only", "tests"]):
            ended = self.check(*words)
            self.assertEqual(ended.returncode, 2, words)
            self.assertIn("usage:", ended.stderr)


    def test_folders_have_either_a_check_or_rehearsals(self):
        self.out.mkdir()
        (self.out / "gpus.csv").write_text("Made-up H100, 81559 MiB, none\n")
        ended = self.check("--only", "adamw", str(self.out))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("has results of a rehearsal, which this run would mix with others: name another folder", ended.stderr)
        self.assertFalse((self.out / "gpu_check.md").exists())

    def test_what_builds_a_rehearsal_is_said_where_it_is_not_built(self):
        ended = self.check("--rehearse", str(self.out), ZEROTH_BUILD=str(self.place))
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"error: there is no {self.place}/rehearsal/bin/train_gpt.", ended.stderr)
        self.assertIn("cmake --preset test && cmake --build --preset test --target gpu_rehearsal", ended.stderr)
        self.assertFalse(self.out.exists())


class Tests(unittest.TestCase):
    """Running tests without CTest, with substitute programs."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        (self.folder / "bin").mkdir()
        self.listed = []

    def add(self, name, text, **more):
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        self.listed.append({"name": name, "program": f"bin/{name}", "arguments": [], **more})

    def run_tests(self, *words):
        (self.folder / "gpu_tests.json").write_text(json.dumps(self.listed))
        script = ROOT / "scripts/lib/gpu_tests.py"
        return subprocess.run([sys.executable, "-B", script, "run", "--folder", self.folder, "--tests", self.folder / "gpu_tests.json", *words],
                              capture_output=True, text=True, check=False)

    def test_outcomes_are_those_of_ctest(self):
        self.add("good", '[ "$1 $A" = "~[two] b" ]', arguments=["~[two]"], environment={"A": "b"})
        self.add("bad", "echo it broke; exit 1")
        self.add("more", "echo 'skipped: needs 2 GPUs, and 1 are there'; exit 77")
        ended = self.run_tests()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("it broke", ended.stdout)
        outcomes = gpu_check.tests_of(self.folder / "tests.xml")
        self.assertEqual(outcomes, {"passed": ["good"], "failed": ["bad"], "skipped": [], "for more GPUs": ["more"]})
        self.assertEqual((self.folder / "tests/bad.log").read_text(), "it broke\nbad ended with status 1\n")

    def test_only_tests_that_did_not_pass_are_run_again(self):
        self.add("good", f"echo x >>{self.folder}/ran")
        self.add("slow", "sleep 60")
        ended = self.run_tests("--seconds", "0.2")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("slow did not end within 0 s", ended.stdout)
        self.listed.pop()
        self.add("slow", "exit 0")
        self.assertEqual(self.run_tests().returncode, 0)
        self.assertEqual((self.folder / "ran").read_text(), "x\n")
        self.assertEqual(gpu_check.tests_of(self.folder / "tests.xml")["passed"], ["good", "slow"])
        self.listed.insert(0, self.listed.pop())
        self.add("between", "exit 77")
        self.listed.insert(1, self.listed.pop())
        self.assertEqual(self.run_tests().returncode, 0)  # and nothing is forgotten that stands behind what was run
        outcomes = gpu_check.tests_of(self.folder / "tests.xml")
        self.assertEqual((sorted(outcomes["passed"]), outcomes["skipped"]), (["good", "slow"], ["between"]))

    def test_a_suite_without_time_fails(self):
        self.add("good", "exit 0")
        ended = self.run_tests("--total", "0")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("good: no time left", ended.stdout)

    def test_ctest_lists_the_tests(self):
        listing = {"tests": [{"name": "other_gpu", "command": ["/b/bin/test_other", "~[two GPUs]"],
                              "properties": [{"name": "TIMEOUT", "value": 900.0}]},
                             {"name": "cuda_kernels_gpu", "command": ["/b/bin/test_kernels"],
                              "properties": [{"name": "ENVIRONMENT", "value": ["ZEROTH_FEWEST_GPUS=2"]}]}]}
        first, second = gpu_tests.tests_in(listing, Path("/b"))
        self.assertEqual((first.name, first.program, first.environment), ("cuda_kernels_gpu", "bin/test_kernels", {"ZEROTH_FEWEST_GPUS": "2"}))
        self.assertEqual((second.program, second.arguments, second.seconds), ("bin/test_other", ["~[two GPUs]"], 900.0))


class Carried(unittest.TestCase):
    """A folder like those of scripts/gpu_carry.sh, with substitute programs and a substitute driver."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.root, self.out, tools = self.place / "zeroth_gpu", self.place / "out", self.place / "tools"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        (self.root / "include").mkdir()
        (self.root / "carried/bin").mkdir(parents=True)
        tools.mkdir()
        (self.root / "carried/commit.txt").write_text("0123abc\n")
        (self.root / "carried/needs.txt").write_text("libc.so.6\nlibmissing.so.7\n")
        self.program(self.root / "carried/bin/test_nccl_memory_gpu", f"cat <<'END' >$ZEROTH_MEMORY_FIGURES\n{json.dumps(MEMORY)}\nEND")
        line = json.dumps({"gradient": "fp32", "parameter": "bf16", "gb_per_s": 2800.4, "copy_gb_per_s": 3011.2, "ratio": 0.93})
        self.program(self.root / "carried/bin/bench_cuda_adamw", f"cat <<'END'\n{line}\nEND")
        lines = "\n".join(json.dumps(line) for line in LAYERS)
        self.program(self.root / "carried/bin/bench_cuda_gpt",
                     f'case "$*" in *--algorithms*) while [ $# -gt 1 ]; do shift; done; echo "{{}}" >"$1"; exit;; esac\ncat <<\'END\'\n{lines}\nEND')
        (self.place / "reports").mkdir()
        for case in CASES:
            (self.place / "reports" / f"{case.name}.jsonl").write_text(report(case, 1, 1e5))
        self.program(self.root / "carried/bin/train_gpt",
                     f'while [ $# -gt 1 ]; do [ "$1" = --report ] && cp "{self.place}/reports/${{2##*/}}" "$2"; shift; done')
        (self.root / "carried/gpu_tests.json").write_text(json.dumps(
            [{"name": "nccl_memory_gpu", "program": "bin/test_nccl_memory_gpu", "arguments": []}]))
        self.program(tools / "nvidia-smi", 'echo "NVIDIA H100 80GB HBM3, 81559 MiB, 580.1"')
        self.program(tools / "compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'")

    def program(self, path, text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def check(self, *words):
        environment = dict(os.environ, PATH=f"{self.place}/tools:{os.environ['PATH']}")
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        return subprocess.run([str(self.root / "scripts/gpu_check.sh"), *words, str(self.out)], capture_output=True, text=True, check=False,
                              env=environment)

    def test_everything_runs_and_nothing_is_built(self):
        ended = self.check()
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("Commit 0123abc.", ended.stdout)
        self.assertIn("No problems", ended.stdout)
        self.assertIn("memcheck of test_cuda_kernels_gpu, 0 errors", ended.stdout)
        self.assertIn("warning: no libmissing.so.7 in", ended.stderr)
        self.assertFalse((self.root / "build").exists())

    def test_nothing_starts_after_the_time_limit(self):
        (self.root / "scripts/gpu_check.sh").write_text(
            (ROOT / "scripts/gpu_check.sh").read_text().replace("minutes=${2-}", "minutes=${2-}; SECONDS=60"))
        ended = self.check("--minutes", "1")
        self.assertEqual(ended.returncode, 1)
        for part in ("tests", "adamw", "layers", "training", "sanitizer"):
            self.assertIn(f"{part}: no time left, 1 minutes are over", ended.stdout)
        self.assertFalse((self.out / "adamw.jsonl").exists())

    def test_parts_add_up(self):
        self.assertEqual(self.check("--only", "tests,adamw,layers").returncode, 1)  # nothing was trained
        ended = self.check("--only", "training,sanitizer", "--minutes", "1")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


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

    def test_an_empty_list_means_no_gpu(self):
        self.check("#!/bin/sh\nexit 0\n")


if __name__ == "__main__":
    unittest.main()
