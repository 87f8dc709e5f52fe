# SPDX-License-Identifier: Apache-2.0
"""bench/peers without PyTorch: arguments, stage files, memory and failures of programs, ratios, losses."""

import contextlib
import io
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from typing import ClassVar
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PEERS = REPOSITORY / "bench" / "peers"
sys.path[:0] = [str(PEERS), str(REPOSITORY / "scripts")]
import checkpoint  # noqa: E402
import codec_losses  # noqa: E402
import launch  # noqa: E402
import loads  # noqa: E402
import muon  # noqa: E402
import muon_table  # noqa: E402
import pipeline  # noqa: E402
import resident  # noqa: E402
import run  # noqa: E402
import silent  # noqa: E402
import simulated  # noqa: E402
import table  # noqa: E402
import tensor  # noqa: E402
import tensor_table  # noqa: E402

MIB = 1024 * 1024


def made(system, variant="threads", number=0, speed=1000.0, losses=(5.5, 4.25), peak=(100 * MIB,), load="L2", precision="fp32"):
    return {"precision": precision, "load": load, "ranks": 2, "round": number, "system": system, "variant": variant, "tokens_per_s": speed,
            "losses": list(losses), "peak_bytes": list(peak)}


class Checkpoints(unittest.TestCase):
    def test_figures_of_zeroth_come_from_its_benchmarks(self):
        lines = [{"what": "save", "seconds": 0.6, "raw_write_seconds": 0.5},
                 {"what": "save() itself", "seconds": 0.001, "raw_write_seconds": 0.5},
                 {"what": "memory that saves add, bytes of each rank", "first": 7, "most": 9},
                 {"what": "restore at another number of ranks", "seconds": 0.8, "raw_read_seconds": 0.4},
                 {"what": "steps, lost to a save", "seconds": -0.1, "memcpy_seconds": 0.2},
                 {"what": "something new", "seconds": 1.0}]
        self.assertEqual(checkpoint.zeroth_figures(map(json.dumps, lines)),
                         {"save": 0.6, "raw_write": 0.5, "async_save_blocks": 0.001, "async_save_bytes": 9, "load_other": 0.8,
                          "raw_read_other": 0.4, "steps_lost": -0.1, "memcpy": 0.2})

    def test_wrong_arguments_are_refused(self):
        for words, problem in ((["--out", "x"], "--folder"), (["--folder", "f", "--out", "x", "--systems", "gloo"], "gloo"),
                               (["--folder", "f", "--out", "x", "--rounds", "0"], "--rounds")):
            err = io.StringIO()
            with self.subTest(words=words), contextlib.redirect_stderr(err), self.assertRaises(SystemExit):
                checkpoint.arguments(words)
            self.assertIn(problem, err.getvalue())


class SilentErrors(unittest.TestCase):
    CASE = silent.CASES[0]  # in bf16
    MUON = next(case for case in silent.CASES if case.name == "Muon")

    def setUp(self):
        self.start = silent.start_weights({name: [0.0] * (256 if name.endswith("weight") else 16) for name in silent.NAMES})
        self.right = self.after(1.0)

    def after(self, way, norms=(2.0, 1.0)):
        return {"norms": list(norms), "weights": {name: [x - 0.1 * way for x in values] for name, values in self.start.items()}}

    def test_the_start_is_exact_in_bf16(self):
        odd = {int(128 * x) for values in self.start.values() for x in values}
        self.assertEqual({x % 2 for x in odd}, {1})
        self.assertLess(max(map(abs, odd)), 64)

    def test_a_norm_or_weights_beyond_the_bound_are_wrong(self):
        self.assertEqual(silent.verdict(self.CASE, self.right, self.right), (True, "right (within 0e+00)"))
        self.assertTrue(silent.verdict(self.CASE, self.after(1.04), self.right)[0])
        self.assertEqual(silent.verdict(self.CASE, self.after(0.5), self.right), (False, "norm x 1, weights 50 % off"))
        self.assertEqual(silent.verdict(self.CASE, self.after(1, (2.0, 0.25)), self.right)[0], False)
        self.assertTrue(silent.verdict(self.CASE, self.after(1, (None, None)), self.right)[0])

    def test_only_the_direction_of_muon_counts(self):
        self.assertTrue(silent.verdict(self.MUON, self.after(3), self.right)[0])
        self.assertFalse(silent.verdict(self.MUON, self.after(-1), self.right)[0])

    def test_a_failure_is_its_error(self):
        failure = silent.launch.Failure("exit status 1\n[rank1]: ValueError: stage 3 is not\nwarning: a leak")
        self.assertEqual(silent.verdict(self.CASE, failure, self.right), (None, "ValueError: stage 3 is not"))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Arguments(Folder):
    def refused(self, *words):
        err = io.StringIO()
        with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as end:
            run.arguments([*words, "--out", "x.json"])
        self.assertEqual(end.exception.code, 2)
        return err.getvalue()

    def test_unknown_words_are_named_with_what_is_allowed(self):
        self.assertIn("'L3' is none of L1, L2, state", self.refused("--loads", "L1,L3"))
        self.assertIn("'fsdp' is none of ddp, fsdp2,", self.refused("--peers", "fsdp"))
        self.assertIn("'4' is none of", self.refused("--stages", "4"))
        self.assertIn("'0' is not a whole number of at least 1", self.refused("--rounds", "0"))
        self.assertIn("'two' is not a whole number", self.refused("--ranks", "two"))
        self.assertIn("'fp16' is none of fp32, bf16", self.refused("--precisions", "fp32,fp16"))

    def test_both_precisions_of_each_load_unless_one_is_asked_for(self):
        self.assertEqual(run.arguments("--out x.json".split()).precisions, ["fp32", "bf16"])
        self.assertEqual(run.arguments("--precisions bf16 --out x.json".split()).precisions, ["bf16"])

    def test_files_are_named_after_the_maker(self):
        self.assertEqual([table.file_of(maker) for maker in ("AMD", "Intel", "Vendor, (of) chips")],
                         ["peers_amd.json", "peers_intel.json", "peers_vendor_of_chips.json"])

    def test_stage_3_always_runs_and_peers_whose_memory_is_compared_have_a_lean_variant(self):
        options = run.arguments("--stages 0 --mpi= --peers ddp,fsdp2 --out x.json".split())
        self.assertEqual([(c.system, c.variant) for c in run.contenders(options)],
                         [("zeroth0", "threads"), ("zeroth3", "threads"), ("ddp", "default"), ("ddp", "tuned"),
                          ("fsdp2", "default"), ("fsdp2", "tuned"), ("fsdp2", "lean")])

    def test_states_on_a_disk_are_a_variant_of_two_contenders(self):
        options = run.arguments("--stages 3 --mpi= --peers deepspeed3 --variants tuned --nvme /disk --out x.json".split())
        self.assertEqual([(c.system, c.variant) for c in run.contenders(options)],
                         [("zeroth3", "threads"), ("deepspeed3", "tuned"), ("zeroth3", "nvme"), ("deepspeed3", "nvme")])
        zero = json.loads(loads.stage_file(3, loads.LOADS["state"], "fp32", options.nvme))["zero_optimization"]
        self.assertEqual(zero["offload_optimizer"], {"device": "nvme", "nvme_path": "/disk"})
        self.assertNotIn("offload_optimizer", loads.stage_file(3, loads.LOADS["state"], "fp32"))

    def test_a_load_that_no_number_of_ranks_fits_is_refused(self):
        options = run.arguments("--loads L1,state --ranks 2 --out x.json".split())
        with self.assertRaisesRegex(SystemExit, "state runs on 4 ranks only"):
            list(run.settings(options))
        options = run.arguments("--ranks 2,4 --steps 7 --out x.json".split())
        self.assertEqual([(name, ranks, load.steps) for name, load, ranks in run.settings(options)],
                         [("L1", 2, 7), ("L1", 4, 7), ("L2", 2, 7), ("L2", 4, 7), ("state", 4, 7)])

    def test_text_is_joined_in_order_of_paths(self):
        (self.folder / "text" / "b").mkdir(parents=True)
        (self.folder / "text" / "b" / "1").write_text("second")
        (self.folder / "text" / "a").write_text("first ")
        self.assertEqual(run.concatenate(self.folder / "text", self.folder / "all"), len("first second"))
        self.assertEqual((self.folder / "all").read_text(), "first second")


@unittest.skipUnless("TRAIN_GPT" in os.environ, "TRAIN_GPT is set where the program is built")
class TrainGpt(Folder):
    """Accepts the requested stage files."""

    def planned(self, text, load, ranks):
        config = self.folder / "stage.json"
        config.write_text(text)
        words = [os.environ["TRAIN_GPT"], "--plan", "--config", config, "--ranks", ranks, "--layers", load.layers,
                 "--heads", load.heads, "--channels", load.channels, "--context", load.context]
        ended = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    def test_every_stage(self):
        for load, precision, stage in itertools.product((*loads.LOADS.values(), loads.IDLE), loads.PRECISIONS, range(4)):
            told = self.planned(loads.stage_file(stage, load, precision), load, ranks=4)
            self.assertRegex(told, rf"[Ss]tage.*{stage}")
            self.assertIn(f"compute {precision}", told)

    def test_tensor_ranks(self):
        for name, precision, sequence in itertools.product(("L1", "L2"), loads.PRECISIONS, (False, True)):
            load = loads.LOADS[name]
            told = self.planned(tensor.config(load, precision, tensor_ranks=2, sequence=sequence), load, ranks=2)
            self.assertIn(f"compute {precision}", told)
            self.assertIn("tensor ranks: 2,", told)


class Speed(unittest.TestCase):
    def test_speed_is_of_the_steps_after_warm_up(self):
        load = loads.Load(layers=1, heads=1, channels=8, context=100, micro_batch=2, steps=3, warmup=2)
        self.assertEqual(loads.tokens_per_second([9000, 8000, 100, 50, 40], load, world=4), 2 * 100 * 4 / 0.050)


class Turns(Folder):
    class Launcher:
        """Replaces the launchers of Zeroth and of the peers. All are equally fast; DDP is wrong in bf16."""
        asked: ClassVar[list] = []

        def __init__(self, *_):
            pass

        def save_initial(self, load, path):
            path.mkdir(exist_ok=True)

        def turn(self, *where):
            self.asked.append(where)
            wrong = where[0] == "ddp" and "bf16" in where
            return {"step_ms": [9.0, 9.0, 9.0, 1.0], "losses": [5.5, 4.25 * (1.1 if wrong else 1)], "peak_bytes": [MIB],
                    "idle_bytes": [MIB], **({"math": f"{where[3]} math"} if isinstance(where[0], int) else {})}

    def test_every_contender_has_a_speed_in_every_precision_and_round(self):
        (self.folder / "text").write_text("to train on")
        options = run.arguments(["--loads", "L2", "--ranks", "2", "--stages", "3", "--mpi=", "--peers", "ddp", "--variants", "tuned",
                                 "--rounds", "2", "--data", f"{self.folder}/text", "--out", f"{self.folder}/out.json"])
        self.Launcher.asked.clear()
        with mock.patch.multiple(launch, Zeroth=self.Launcher, Peers=self.Launcher), \
                contextlib.redirect_stderr(io.StringIO()) as told:
            run.Benchmark(options, self.folder).run()
        load, zeroth, ddp = loads.LOADS["L2"], [], []
        for precision in ("fp32", "bf16"):
            zeroth.append((3, load, 2, precision, "threads", None))
            ddp.append(("ddp", "tuned", "L2", load, 2, precision, None))
        self.assertEqual(self.Launcher.asked, [turn for pair in zip(zeroth, ddp) for turn in (*pair, *reversed(pair))])
        self.assertIn("bf16, L2, 2 ranks, round 1: ddp tuned: 256,000 tokens/s", told.getvalue())
        record = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(record["math"], {"fp32": "fp32 math", "bf16": "bf16 math"})
        self.assertEqual([(s["precision"], s["contender"], s["rounds"]) for s in record["summary"]],
                         [("fp32", "zeroth3", 2), ("fp32", "ddp tuned", 2), ("bf16", "zeroth3", 2), ("bf16", "ddp tuned", 2)])
        self.assertTrue(record["stage_file"]["bf16"]["L2"]["bf16"]["enabled"])
        self.assertEqual([problem.split(":")[0] for problem in table.wrong_losses(record["runs"])],
                         [f"bf16, L2, 2 ranks, round {number}, ddp tuned" for number in (0, 1)])


class Programs(Folder):
    def test_peak_of_a_program_and_its_status(self):
        for words, status in ((f"x = bytearray({64 * MIB})", 0), ("raise SystemExit(3)", 1)):
            ended = subprocess.run([sys.executable, "-I", "-S", PEERS / "with_peak.py", self.folder / "peak",
                                    sys.executable, "-I", "-c", words], env={**os.environ, "OMPI_COMM_WORLD_RANK": "5"},
                                   check=False)
            self.assertEqual(ended.returncode, status)
            peak = int((self.folder / "peak.5").read_text())
            self.assertTrue(peak > 64 * MIB if status == 0 else 2 * MIB < peak < 64 * MIB, peak)

    def test_growth_is_that_of_the_peak(self):
        before = bytearray(16 * MIB)
        growth = resident.Growth()
        block = bytearray(b"1" * (48 * MIB))
        del block
        self.assertTrue(48 * MIB <= growth.peak() < 112 * MIB, growth.peak())
        self.assertGreater(growth.idle, len(before))

    def test_a_program_that_fails_or_hangs_is_reported_with_its_output(self):
        log = self.folder / "log"
        with self.assertRaisesRegex(launch.Failure, "(?s): 4\n.*out of ideas"):
            launch.run_program([sys.executable, "-c", "print('out of ideas'); raise SystemExit(4)"], log, 60)
        with self.assertRaisesRegex(launch.Failure, "nothing after 1 s"):
            launch.run_program([sys.executable, "-c", "import time; time.sleep(600)"], log, 1)

    def test_the_first_rank_that_fails_ends_the_wait(self):
        context = multiprocessing.get_context("spawn")
        waits = context.Process(target=time.sleep, args=(600,))
        fails = context.Process(target=sys.exit, args=(7,))
        for process in (waits, fails):
            process.start()
            self.addCleanup(process.join)
            self.addCleanup(process.kill)  # before the join: clean-ups run backwards
        self.assertEqual(launch.wait_for([waits, fails], 60), "exit status 7")
        self.assertEqual(launch.wait_for([waits], 1), "nothing after 1 s")


class Figures(unittest.TestCase):
    def test_ratios_are_paired_by_round(self):
        runs = [made("zeroth3", speed=2000), made("fsdp2", "tuned", speed=1000), made("ddp", "tuned", speed=2500),
                made("zeroth3", number=1, speed=900), made("fsdp2", "tuned", number=1, speed=300),
                made("zeroth3", number=2, speed=2000), made("fsdp2", "tuned", number=2, speed=800)]
        by_name = {s["contender"]: s for s in table.summarise(runs)}
        self.assertEqual(by_name["fsdp2 tuned"]["zeroth3_is_times_as_fast"], 2.5)
        self.assertIsNone(by_name["fsdp2 tuned"]["zeroth0_is_times_as_fast"])
        self.assertEqual(by_name["fsdp2 tuned"]["tokens_per_s"], 800)
        self.assertEqual(by_name["fsdp2 tuned"]["tokens_per_s_range"], [300, 1000])
        self.assertEqual(by_name["fsdp2 tuned"]["speed_over_unsharded"], 0.4)
        self.assertIsNone(by_name["zeroth3"]["speed_over_unsharded"])

    def test_precisions_are_compared_separately(self):
        runs = [made("zeroth0", speed=3000), made("zeroth3", speed=2000), made("ddp", "default", speed=1000),
                made("zeroth3", speed=8000, precision="bf16"), made("ddp", "default", speed=500, precision="bf16")]
        told = {(s["precision"], s["contender"]): s for s in table.summarise(runs)}
        self.assertEqual([told[precision, "ddp"]["zeroth3_is_times_as_fast"] for precision in ("fp32", "bf16")], [2, 16])
        self.assertEqual([told[precision, "ddp"]["zeroth0_is_times_as_fast"] for precision in ("fp32", "bf16")], [3, None])

    def test_the_fullest_rank_counts(self):
        runs = [made("zeroth3"), made("deepspeed3", "lean", peak=(100 * MIB, 130 * MIB))]
        self.assertEqual(table.summarise(runs)[1]["peak_bytes_per_rank"], 130 * MIB)

    def test_table(self):
        runs = [made("zeroth0", speed=2200), made("zeroth3", speed=2000, peak=(50 * MIB,) * 2),
                made("ddp", "default", speed=1250), made("zeroth3", load="state")]
        lines = [re.split(r" {2,}", line) for line in table.table(table.summarise(runs)).splitlines()]
        self.assertIn(["fp32", "L2", "2", "zeroth3", "2,000", "2,000 - 2,000", "1.00 x", "0.91", "50", "4.250000"], lines)
        self.assertIn(["fp32", "L2", "2", "ddp", "1,250", "1,250 - 1,250", "1.60 x", "1.00", "100", "4.250000"], lines)
        self.assertIn(["fp32", "state", "2", "zeroth3", "1,000", "1,000 - 1,000", "1.00 x", "-", "100", "4.250000"], lines)

    def test_losses_that_differ_are_found(self):
        right = made("zeroth3")
        good = [right, made("zeroth1"), made("fsdp2", "tuned", losses=(5.5, 4.25 * (1 + 9e-6)))]
        self.assertEqual(table.wrong_losses(good), [])
        for bad, words in [
                (made("zeroth3", "mpi", losses=(5.5, 4.2500001)), "fp32, L2, 2 ranks, round 0, zeroth3 mpi: the loss of step 2"),
                (made("fsdp2", "lean", losses=(5.5, 4.25 * (1 + 2e-5))), "fsdp2 lean: the loss of step 2 is 4.250085"),
                (made("ddp", "default", losses=(math.nan, 4.25)), "ddp: the loss of step 1 is nan"),
                (made("ddp", "default", losses=(5.5,)), "ddp: 1 steps, Zeroth took 2")]:
            problems = table.wrong_losses([*good, bad])
            self.assertEqual(len(problems), 1, problems)
            self.assertIn(words, problems[0])
        self.assertIn("stage 3 did not run", table.wrong_losses([made("ddp", "default")])[0])

    def test_a_peer_has_the_bound_of_its_precision_and_zeroth_has_none(self):
        bound = table.LOSS_BOUNDS["bf16"]
        right = [made("zeroth3"), made("zeroth3", precision="bf16", losses=(5.5, 4.26))]

        def problems(system, variant, factor, precision="bf16"):
            base = {"fp32": 4.25, "bf16": 4.26}[precision]
            return table.wrong_losses([*right, made(system, variant, losses=(5.5, base * factor), precision=precision)])
        self.assertEqual(problems("ddp", "tuned", 1 + 0.9 * bound), [])
        self.assertEqual(problems("ddp", "tuned", 1 - 0.9 * bound), [])
        for bad in (problems("ddp", "tuned", 1 + 1.1 * bound), problems("ddp", "tuned", 1 - 1.1 * bound),
                    problems("zeroth0", "threads", 1 + 1e-8), problems("ddp", "tuned", 1 + 0.9 * bound, "fp32")):
            self.assertEqual(len(bad), 1)
        self.assertRegex(problems("ddp", "tuned", 1.1)[0], r"^bf16, L2, 2 ranks, round 0, ddp tuned: the loss of step 2 is "
                                                           r"4\.686, Zeroth's is 4\.26; bound: 0\.\d+ of its value$")

    def test_the_bound_of_bf16_lies_between_rounding_and_mistakes(self):
        """The largest errors of losses on L2, and those of its first three steps after each mistake."""
        right = [5.543812, 5.045165, 4.471680]

        def problems(off):
            wrong = [loss * (1 + relative) for loss, relative in zip(right, off)]
            return table.wrong_losses([made("zeroth3", losses=right, precision="bf16"),
                                       made("ddp", "default", losses=wrong, precision="bf16")])
        self.assertEqual(problems([3.7e-5, 1.1e-4, -6.5e-5]), [])
        for mistake, off, step in (("twice the learning rate", (2.3e-6, -8.9e-3, 3.2e-3), 2),
                                   ("samples in another order", (7.1e-3, -5.2e-2, 6.9e-2), 1),
                                   ("no residual around attention", (-1.9e-2, 2.1e-2, -4.7e-3), 1)):
            with self.subTest(mistake):
                self.assertRegex(problems(off)[0], f"ddp: the loss of step {step} is")

    def test_figures_are_json(self):
        runs = [made("zeroth3"), made("ddp", "default")]
        self.assertEqual(json.loads(json.dumps(table.summarise(runs))), table.summarise(runs))


class Pipelines(unittest.TestCase):
    def test_every_contender_trains_as_many_micro_batches_a_step(self):
        for of in pipeline.ZEROTH.values():
            file = json.loads(of.file(loads.LOADS["L1"], "fp32", 8))
            ranks_of_stage = of.ranks // file["zeroth"]["mesh"]["pipeline"]
            self.assertEqual(file["gradient_accumulation_steps"] * ranks_of_stage, 8)

    @staticmethod
    def run_of(contender, tokens_per_s, peak_bytes, losses):
        return {"contender": contender, "load": "L1", "precision": "fp32", "tokens_per_s": tokens_per_s,
                "peak_bytes": peak_bytes, "losses": losses}

    def test_ratios_are_over_the_fastest_and_the_leanest(self):
        runs = [self.run_of(pipeline.BASE, speed, [30, 60], [2.0]) for speed in (100, 300, 200)]
        runs += [self.run_of("torch gpipe default", 80, [100, 90], [2.0]),
                 self.run_of("torch 1f1b lean", 50, [70, 80], [2.0])]
        found = {line["ratio"]: (line["under"], line["value"]) for line in pipeline.summarise(runs, "L1", "fp32")
                 if "ratio" in line}
        self.assertEqual(found, {"tokens/s over torch's fastest": ("torch gpipe default", 2.5),
                                 "memory over torch's leanest": ("torch 1f1b lean", 0.75)})
        self.assertEqual(pipeline.summarise(runs, "L2", "fp32"), [])

    def test_step_times_are_medians_of_the_steps_after_warm_up(self):
        runs = [{"contender": pipeline.BASE, "load": "L1", "precision": "fp32", "step_ms": [900, 900, *measured]}
                for measured in ([5, 1, 3], [7, 8, 9], [4, 4, 4])]
        self.assertEqual(pipeline.step_ms_of(runs, pipeline.BASE, "L1", "fp32"), 4)
        self.assertIsNone(pipeline.step_ms_of(runs, pipeline.ALONE, "L1", "fp32"))

    def test_a_rate_is_fitted_to_one_rank(self):
        simulator = simulated.Simulator("none", pathlib.Path("none"))
        simulator.step_ms = lambda load, file, ranks, rate: 10 + 2e12 / rate  # milliseconds independent of the rate, and others
        self.assertAlmostEqual(simulator.rate(loads.LOADS["L1"], "{}", 110) / 2e10, 1)

    def test_a_different_loss_is_reported_with_its_step(self):
        runs = [self.run_of(pipeline.BASE, 1, [1], [2.0, 1.5]), self.run_of("torch gpipe default", 1, [1], [2.0, 1.5]),
                self.run_of("torch zbv tuned", 1, [1], [2.0, 1.501]), self.run_of("zeroth gpipe", 1, [1], [math.nan, 1.5])]
        self.assertEqual(list(pipeline.wrong_losses(runs)), ["L1, fp32, torch zbv tuned: another loss in step 2",
                                                             "L1, fp32, zeroth gpipe: another loss in step 1"])


class TensorRanks(unittest.TestCase):
    def test_a_step_has_the_samples_of_two_ranks(self):
        load = loads.LOADS["L1"]
        divided = json.loads(tensor.config(load, "bf16", tensor_ranks=2, sequence=True))
        self.assertEqual(divided["zeroth"], {"mesh": {"tensor": 2}, "sequence_parallel": True})
        for file, data_ranks in ((divided, 1), (json.loads(tensor.config(load, "bf16")), 2)):
            self.assertEqual(file["gradient_accumulation_steps"] * data_ranks, 2)
            self.assertEqual(file["train_micro_batch_size_per_gpu"], load.micro_batch)
            self.assertTrue(file["bf16"]["enabled"])
            self.assertEqual(file["zero_optimization"]["stage"], 0)

    @staticmethod
    def run_of(contender, number, tokens_per_s, peak_bytes=(1,), losses=(2.0,)):
        return {"contender": contender, "load": "L1", "precision": "fp32", "round": number, "tokens_per_s": tokens_per_s,
                "peak_bytes": list(peak_bytes), "losses": list(losses)}

    def test_ratios_are_of_a_round_and_over_the_best_variant(self):
        runs = [self.run_of(tensor_table.BASE, number, speed, [30, 60]) for number, speed in enumerate((300, 100, 200))]
        runs += [self.run_of("dtensor tuned", number, speed, [100, 90]) for number, speed in enumerate((100, 50, 160))]
        runs += [self.run_of("dtensor sequence lean", 0, 40, [70, 80]), self.run_of("megatron tuned", 7, 40)]
        found = {line["ratio"]: (line["under"], line["value"]) for line in tensor_table.summarise(runs) if "ratio" in line}
        self.assertEqual(found, {"speed over DTensor": ("dtensor tuned", 2),  # the median of 3, 2 and 1.25, not 200 over 100
                                 "memory over DTensor": ("dtensor sequence lean", 0.75)})

    def test_a_peer_with_the_embedding_whole_is_a_variant_of_that_peer(self):
        contenders = {f"{name} tuned": peer.split("_")[0] for peer, name in tensor.PEERS.items()}
        for peer in ("dtensor", "megatron"):
            self.assertEqual(tensor_table.variants_of(peer, contenders), [name for name, of in contenders.items() if of == peer])
        runs = [self.run_of("dtensor lean", 0, 50, [2**20]), self.run_of("dtensor whole tuned", 0, 60, [2**21])]
        for figure, told in ((tensor_table.SPEED, "60 (whole, tuned)"), (tensor_table.MEMORY, "1 (lean)")):
            self.assertEqual(tensor_table.cells(tensor_table.summarise(runs), figure), (["", "load", "DTensor"], [["fp32", "L1", told]]))

    def test_missed_and_unmeasured_aims_are_reported(self):
        summary = [{"load": "L1", "precision": "fp32", "ratio": "speed over DTensor", "under": "dtensor tuned", "value": 1.49},
                   {"load": "L1", "precision": "fp32", "ratio": "memory over DTensor", "under": "dtensor lean", "value": 0.75}]
        header, rows = tensor_table.aims(summary, [{"case": tensor_table.MASKS, "values_per_second": 0.9e9}])
        told = {row[0]: row[1:] for row in rows}
        self.assertEqual(header, ["", "aim", "L1 fp32"])
        self.assertEqual(told["tokens/s over DTensor's fastest"], ["at least L1 1.5 and L2 2", "1.490, missed"])
        self.assertEqual(told["peak memory per rank over DTensor's leanest"], ["at most 0.75", "0.750"])
        self.assertEqual(told["tokens/s over stage 0 on the same two ranks"], ["at least L1 0.85", "not measured"])
        self.assertEqual(told["10^9 values of masks per second and core, by AVX-512"], ["at least 1", "0.90, missed"])

    def test_a_different_loss_is_reported_with_its_step(self):
        runs = [self.run_of(tensor_table.BASE, 0, 1, losses=[2.0, 1.5]), self.run_of("dtensor tuned", 0, 1, losses=[2.0, 1.5]),
                self.run_of("dtensor lean", 0, 1, losses=[2.0, 1.501]), self.run_of("megatron lean", 0, 1, losses=[math.nan, 1.5]),
                self.run_of("megatron tuned", 0, 1, losses=[2.0])]
        self.assertEqual(tensor_table.wrong_losses(runs, table.LOSS_BOUNDS),
                         ["L1, fp32, dtensor lean: another loss in step 2", "L1, fp32, megatron lean: another loss in step 1",
                          "L1, fp32, megatron tuned: another loss in step 1"])

    def test_wrong_arguments_are_refused(self):
        for words, problem in (([], "--out"), (["--out", "x", "--peers", "fsdp2"], "'fsdp2' is none of dtensor"),
                               (["--out", "x", "--loads", "state"], "'state' is none of L1, L2"), (["--out", "x", "--rounds", "0"], "--rounds")):
            err = io.StringIO()
            with self.subTest(words=words), contextlib.redirect_stderr(err), self.assertRaises(SystemExit):
                tensor.arguments(words)
            self.assertIn(problem, err.getvalue())


class Muon(unittest.TestCase):
    @staticmethod
    def run_of(contender, number, speed, losses=(2.0, 1.5)):
        return {"load": "L1", "precision": "bf16", "contender": contender, "round": number, "tokens_per_s": speed, "losses": list(losses)}

    def test_matrices_are_muons_and_all_else_is_adamws(self):
        plain = json.loads(loads.stage_file(1, loads.LOADS["L1"], "bf16"))
        file = json.loads(loads.stage_file(1, loads.LOADS["L1"], "bf16", optimizer="Muon"))
        self.assertEqual(file["optimizer"], {"type": "Muon", "params": loads.OPTIMIZER | loads.MUON})
        self.assertEqual({**file, "optimizer": 0}, {**plain, "optimizer": 0})

    def test_ratios_are_of_a_round_and_over_the_fastest_variant(self):
        runs = [self.run_of(muon_table.BASE, number, speed) for number, speed in enumerate((300, 100, 200))]
        runs += [self.run_of(f"{muon_table.DDP} tuned", number, 100) for number in range(3)]
        runs += [self.run_of(f"{muon_table.DDP} default", number, 50) for number in range(3)]
        updates = [{"contender": name, "round": 0, "update_ms": ms} for name, ms in ((muon_table.UPDATE, 40), (muon_table.OWNERS, 44))]
        told = [muon_table.verdict(line) for line in muon_table.summarise(runs, updates)]
        self.assertEqual(told, ["L1 bf16: tokens/s over torch.optim.Muon under DDP: 2.00 (aim 1.3)",
                                f"L1 fp32: {muon_table.UPDATE_AIM[1]}: 1.10, missed (aim 1.2)"])
        self.assertEqual(muon_table.summarise(runs, updates)[0]["under"], f"{muon_table.DDP} tuned")
        self.assertEqual(muon_table.summarise(runs[3:], []), [])

    def test_a_different_loss_of_ddp_is_reported_with_its_step(self):
        runs = [self.run_of(muon_table.BASE, 0, 1), self.run_of(f"{muon_table.DDP} tuned", 0, 1, (2.01, 1.51)),
                self.run_of(f"{muon_table.DEEPSPEED} tuned", 0, 1, (2.0, 1.0)), self.run_of(f"{muon_table.DDP} default", 0, 1, (2.0, 1.53))]
        self.assertEqual(muon_table.wrong_losses(runs), ["L1, bf16, ddp_muon default: another loss in step 2"])

    def test_wrong_arguments_are_refused(self):
        for words, problem in (([], "--out"), (["--out", "x", "--peers", "fsdp2"], "fsdp2"), (["--out", "x", "--loads", "state"], "state")):
            err = io.StringIO()
            with self.subTest(words=words), contextlib.redirect_stderr(err), self.assertRaises(SystemExit):
                muon.arguments(words)
            self.assertIn(problem, err.getvalue())


class CodecLosses(unittest.TestCase):
    def test_codecs_differ_in_one_key(self):
        none, int4 = (json.loads(codec_losses.config(loads.LOADS["L1"], "bf16", codec, 1000)) for codec in ("none", "int4"))
        self.assertEqual([file.pop("zeroth") for file in (none, int4)], [{"reduce_codec": "none"}, {"reduce_codec": "int4"}])
        self.assertEqual(none, int4)

    def test_one_bit_adam_freezes_after_a_fifth(self):
        self.assertEqual(codec_losses.runs_of(["one_bit_adam"]), ["unclipped", "one_bit_adam"])
        adam, one_bit = (json.loads(codec_losses.config(loads.LOADS["L1"], "bf16", run, 1000))
                         for run in ("unclipped", "one_bit_adam"))
        self.assertEqual(one_bit["optimizer"]["params"].pop("freeze_step"), 200)
        self.assertEqual((one_bit["optimizer"].pop("type"), adam["optimizer"].pop("type")), ("OneBitAdam", "AdamW"))
        self.assertEqual(adam, one_bit)

    def test_the_last_steps_are_compared(self):
        lines = codec_losses.compared({"none": [9.0] * 50 + [2.0] * 50, "int8": [1.0] * 50 + [2.02] * 50})
        self.assertEqual([(line["codec"], round(line["over_base"], 4)) for line in lines], [("none", 1.0), ("int8", 1.01)])


if __name__ == "__main__":
    unittest.main()
