# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/simulate.md that compare the simulator with published steps, and its error bounds."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts/compare_published.py"
ROWS = (REPOSITORY / "tests/simulate/published.jsonl").read_text(encoding="utf-8").splitlines()


def text_of(name):
    return (REPOSITORY / name).read_text(encoding="utf-8")


class Kept(unittest.TestCase):
    """The files of the repository."""

    def test_each_row_occurs_once_with_its_source(self):
        rows = [json.loads(line) for line in ROWS]
        jobs = [json.dumps({key: value for key, value in row.items() if key != "tokens_per_s_per_gpu"}, sort_keys=True) for row in rows]
        self.assertEqual(len(set(jobs)), len(jobs))
        for row in rows:
            self.assertRegex(row["source"], "^(measured: |[^ ]+/[^ ]+ [0-9a-f]{7}, |[A-Z][a-z]+ et al. 20)")

    def test_the_efficiency_of_math_is_the_one_measured_on_a_gpu(self):
        layers = [each for each in json.loads(text_of("docs/measured/gpu.json"))["layers"]
                  if each["what"].split(",")[0] in ("c_attn", "c_proj", "c_fc and gelu", "c_fc", "mlp.c_proj")]
        self.assertEqual(len(layers), 8)
        us = sum(each["us_of_all"] for each in layers)
        tflop_per_s = sum(each["us_of_all"] * each["tflop_per_s"] for each in layers) / us
        preset = json.loads(re.sub("//.*", "", text_of("configs/machines/8xH100.json")))
        self.assertAlmostEqual(preset["math_efficiency"], tflop_per_s * 1e12 / preset["peak_flops_per_s"], delta=0.01)

    def test_pages_with_simulated_times_say_how_far_the_simulator_was_off(self):
        found = json.loads(text_of("docs/measured/published.json"))
        words = f"{found['least']:.2f} to {found['most']:.2f} of {found['rows']} published ones"
        for page in ("README.md", "docs/groups.md", "docs/pipeline.md", "docs/tensor_parallel.md", "docs/offload.md", "docs/3d.md"):
            self.assertIn(words, " ".join(text_of(page).split()), page)


@unittest.skipUnless("ZEROTH_TOOL" in os.environ, "ZEROTH_TOOL is set where the tool is built")
class Published(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def compare(self, *words):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--zeroth", os.environ["ZEROTH_TOOL"], *words],
                              capture_output=True, text=True, check=False)

    def with_rows(self, rows):
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return self.compare("--published", file)

    def a_few(self):
        return [json.loads(line) for line in ROWS[:8]]

    def test_the_simulator_keeps_its_bounds_and_the_documents_say_so(self):
        document, record = self.folder / "simulate.md", self.folder / "published.json"
        document.write_text(re.sub("(?<=<!-- published: begin -->).*(?=<!-- published: end -->)", "\n", text_of("docs/simulate.md"),
                                   flags=re.DOTALL), encoding="utf-8")
        ended = self.compare("--document", document, "--record", record)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(document.read_text(encoding="utf-8"), text_of("docs/simulate.md"))
        self.assertEqual(record.read_text(encoding="utf-8"), text_of("docs/measured/published.json"))

    def test_a_row_with_a_large_error_is_named(self):
        rows = self.a_few()
        rows[2]["tokens_per_s_per_gpu"] *= 2
        ended = self.with_rows(rows)
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, "line 3 has a ratio of 0.[56]")
        self.assertNotIn("line 4", ended.stderr)

    def test_machines_that_are_faster_than_all_rows_are_reported(self):
        rows = self.a_few()
        for row in rows:
            row["tokens_per_s_per_gpu"] *= 0.85
        ended = self.with_rows(rows)
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, r"the geometric mean is 1\.\d+, more than 5% off")

    def test_rows_with_errors_in_both_directions_are_reported(self):
        rows = self.a_few()
        for at, row in enumerate(rows):
            row["tokens_per_s_per_gpu"] *= 1.17 if at % 2 else 0.85
        ended = self.with_rows(rows)
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, r"the root mean square of logarithms is 0\.[12]\d+, more than 0\.09")

    def test_an_unknown_kind_of_code_or_machine_is_an_error(self):
        ended = self.with_rows([self.a_few()[0] | {"code": "faster"}])
        self.assertEqual(ended.returncode, 1)
        self.assertIn('has no kind of code "faster"; allowed: compiled, eager, fused', ended.stderr)
        ended = self.with_rows([self.a_few()[0] | {"machine": "9xH100"}])
        self.assertEqual(ended.returncode, 1)
        self.assertIn('machine "9xH100" is neither a preset', ended.stderr)


if __name__ == "__main__":
    unittest.main()
