# SPDX-License-Identifier: Apache-2.0
"""Kept files with mistakes: every message names the file, the line or entry, and the key."""

import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import report  # noqa: E402
import sample_measurements  # noqa: E402
import sample_runs  # noqa: E402


class BadFiles(unittest.TestCase):
    def refused(self, name, content):
        """The program's message about a folder with only this file. content: text, a document or lines."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, dict):
                path.write_text(json.dumps(content), encoding="utf-8")
            else:
                sample_runs.write(path, content)
            err = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
                status = report.main(["--measured", folder, "--pictures", f"{folder}/pictures"])
            self.assertEqual(status, 2, err.getvalue())
            self.assertFalse(pathlib.Path(folder, "pictures").exists())
            return err.getvalue()

    def check(self, name, whole, cases):
        for edit, message in cases:
            with self.subTest(message=message):
                content = copy.deepcopy(whole)
                edit(content)
                self.assertRegex(self.refused(name, content), rf"^report\.py: \S*/{re.escape(name)}{message}")

    def test_no_json(self):
        self.assertRegex(self.refused("peers_amd.json", b"{"), r"/peers_amd\.json: no JSON: ")
        self.assertRegex(self.refused("peers_amd.json", b"\xff"), r"/peers_amd\.json: no UTF-8: ")
        self.assertRegex(self.refused("savings.jsonl", b"{}\n{\n"), r"/savings\.jsonl:2: no JSON: ")
        self.assertRegex(self.refused("savings.jsonl", b""), r"/savings\.jsonl: nothing was recorded")
        self.assertRegex(self.refused("step_time.jsonl", b"[1]\n"), r"/step_time\.jsonl:1: is \[1\]; it must be an object")

    def test_step_time(self):
        def put(line, **fields):
            return lambda lines: lines[line - 1].update(fields)

        self.check("step_time.jsonl", sample_measurements.step_time(), [
            (lambda lines: lines[2].pop("exposed_comm_ms"), r":3: exposed_comm_ms is missing"),
            (put(3, step_ms="fast"), r":3: step_ms is \"fast\"; it must be a number above 0"),
            (put(3, step_ms=True), r":3: step_ms is true; it must be a number above 0"),
            (put(3, step_ms=0), r":3: step_ms is 0; "),
            (put(3, tokens_per_s=float("nan")), r":3: tokens_per_s is NaN; it must be a number above 0"),
            (put(3, exposed_comm_ms=-1), r":3: exposed_comm_ms is -1; it must be a number of at least 0"),
            (put(3, exposed_comm_ms=1e9), r":3: exposed_comm_ms is 1e\+09, more than step_ms, 886\.5"),
            (put(3, benchmark="adamw"), r":3: benchmark is \"adamw\"; it must be \"step_time\""),
            (put(3, stage=4), r":3: stage is 4; it must be 0 or 1 or 2 or 3"),
            (put(3, stage=1), r":3: stage is 1 for the second time for load L1 on 2 ranks"),
            (put(3, context=64), r":3: load L1: 6 layers, .* context 64, before L1: 6 layers, .* context 256"),
            (put(3, ranks=0), r":3: ranks is 0; it must be a whole number of at least 1"),
            (put(3, ratio_quartiles=[1]), r":3: ratio_quartiles is \[1\]; it must be two numbers, the smaller one first"),
            (put(3, ratio_quartiles=[2, 1]), r":3: ratio_quartiles is \[2, 1\]; it must be two numbers"),
            (put(3, ratio_to_stage_0=2), r":3: ratio_to_stage_0 is 2, outside ratio_quartiles, 0\.965 to 1\.015"),
            (put(3, rounds=11), r": load L1 on 2 ranks has rounds \[11, 12\]; they must be the same"),
            (lambda lines: lines.pop(), r": load L2 on 4 ranks has stages \[0, 1, 2\]; they must be 0 to 3"),
        ])

    def test_savings(self):
        self.check("savings.jsonl", sample_measurements.savings(), [
            (lambda lines: lines[4].pop("ranks"), r":5: ranks is missing"),
            (lambda lines: lines[4].update(ranks=2), r":5: ranks is 2 for the second time for 7500000000 parameters"),
            (lambda lines: lines[4]["model"].update(parameters="7.5B"), r":5: model: parameters is \"7.5B\"; "),
            (lambda lines: lines[4]["model"].update(units=8), r":5: model.units and device_memory are 8 and 85899345920, "
                                                              r"before 32 and 85899345920 for the same model"),
            (lambda lines: lines[4]["stages"].pop(), r":5: stages holds 3 stages; there must be 4"),
            (lambda lines: lines[4]["stages"].reverse(), r":5: stages\[0\]: stage is 3; it must be 0"),
            (lambda lines: lines[4]["stages"][2].update(slots=1), r":5: stages\[2\]: adds up to \d+, not to total, \d+"),
            (lambda lines: lines[4]["stages"][2].update(slots=-1), r":5: stages\[2\]: slots is -1; "),
            (lambda lines: lines[4]["stages"].__setitem__(1, {"stage": 1, "refused": "x"}), r":5: stages\[1\]: refused: "),
            (lambda lines: lines.pop(), r": ranks are \[1, 2, .*512\] for model 1T and \[1, 2, .*1024\] for 7.5B; "),
        ])

    def test_peers(self):
        self.check("peers_amd.json", sample_measurements.peers(), [
            (lambda peers: peers.update(benchmark="speed"), r": benchmark is \"speed\"; it must be \"peers\""),
            (lambda peers: peers["machine"].update(maker="Intel"), r": its processor is of \"Intel\"; such a file is called "
                                                                   r"peers_intel\.json"),
            (lambda peers: peers["runs"][7].pop("precision"), r": runs\[7\]: precision is missing"),
            (lambda peers: peers["runs"][7].update(precision="fp8"), r": runs\[7\]: precision is \"fp8\"; it must be \"fp32\" or \"bf16\""),
            (lambda peers: peers["failures"][0].update(precision="fp8"), r": failures\[0\]: precision is \"fp8\"; it must be "),
            (lambda peers: peers["summary"][7].update(precision="bf16"), r": summary\[7\]: \w+ is .*, its runs make "),
            (lambda peers: peers["math"].pop("bf16"), r": math: bf16 is missing"),
            (lambda peers: peers.update(runs=[], summary=[]), r": runs is empty"),
            (lambda peers: peers.update(runs={}), r": runs is {}; it must be a list"),
            (lambda peers: peers["runs"][7].pop("system"), r": runs\[7\]: system is missing"),
            (lambda peers: peers["runs"][7].update(load="L9"), r": runs\[7\]: load is \"L9\"; it must be \"L1\" or \"L2\" or "),
            (lambda peers: peers["runs"][7].update(tokens_per_s=-5), r": runs\[7\]: tokens_per_s is -5; "),
            (lambda peers: peers["runs"][7].update(losses=[]), r": runs\[7\]: losses must be a list of one or more numbers"),
            (lambda peers: peers["runs"][7].update(peak_bytes=[9, 0]), r": runs\[7\]: peak_bytes has 0; a peak is above 0"),
            (lambda peers: peers["runs"][7].update(tokens_per_s=5), r": summary\[7\]: tokens_per_s_range is .*, its runs make "),
            (lambda peers: peers["summary"][7].update(peak_bytes_per_rank=5), r": summary\[7\]: peak_bytes_per_rank is 5, its"),
            (lambda peers: peers["summary"][7].update(contender="x"), r": summary\[7\]: contender has no runs"),
            (lambda peers: peers["summary"].pop(), r": summary has 148 entries, its runs make 149"),
            (lambda peers: peers["failures"][0].pop("error"), r": failures\[0\]: error is missing"),
            (lambda peers: peers["loads"]["L1"].update(layers=0), r": loads: L1: layers is 0; "),
            (lambda peers: peers["machine"].pop("processor"), r": machine: processor is missing"),
            (lambda peers: peers["versions"].update(torch=2), r": versions: torch is 2; it must be text"),
        ])

    def test_tensor(self):
        self.check("tensor.json", sample_measurements.tensor(), [
            (lambda kept: kept.update(benchmark="peers"), r": benchmark is \"peers\"; it must be \"tensor\""),
            (lambda kept: kept.update(runs=[], summary=[]), r": runs is empty"),
            (lambda kept: kept["runs"][3].update(load="L9"), r": runs\[3\]: load is \"L9\"; it must be \"L1\" or \"L2\""),
            (lambda kept: kept["runs"][3].update(tokens_per_s=0), r": runs\[3\]: tokens_per_s is 0; it must be a number above 0"),
            (lambda kept: kept["runs"][3].update(peak_bytes=[9, 0]), r": runs\[3\]: peak_bytes has 0; a peak is above 0"),
            (lambda kept: kept["runs"][3].update(losses=["x"]), r": runs\[3\]: losses must be a list of one or more numbers"),
            (lambda kept: kept["runs"][3].update(tokens_per_s=9999), r": summary is not what its runs make"),
            (lambda kept: kept["masks"][1].pop("values_per_second"), r": masks\[1\]: values_per_second is missing"),
            (lambda kept: kept["failures"][0].pop("error"), r": failures\[0\]: error is missing"),
            (lambda kept: kept["loads"]["L1"].update(layers=0), r": loads: L1: layers is 0; "),
            (lambda kept: kept["machine"].pop("cores"), r": machine: cores is missing"),
        ])

    def test_checkpoints(self):
        self.check("checkpoints.json", sample_measurements.checkpoints(), [
            (lambda kept: kept.update(benchmark="peers"), r": benchmark is \"peers\"; it must be \"checkpoint_peers\""),
            (lambda kept: kept.update(runs=[], summary=[]), r": runs is empty"),
            (lambda kept: kept["runs"][1].update(system="gloo"), r": runs\[1\]: system is \"gloo\"; it must be "),
            (lambda kept: kept["runs"][1].update(save=0), r": runs\[1\]: save is 0; it must be a number above 0"),
            (lambda kept: kept["runs"][1].update(async_save_bytes=-1), r": runs\[1\]: async_save_bytes is -1; "),
            (lambda kept: kept["runs"][1].update(save=3.5), r": summary is not what its runs make"),
            (lambda kept: kept["failures"][0].pop("error"), r": failures\[0\]: error is missing"),
            (lambda kept: kept["machine"].pop("cores"), r": machine: cores is missing"),
        ])


if __name__ == "__main__":
    unittest.main()
