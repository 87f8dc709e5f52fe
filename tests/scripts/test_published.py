# SPDX-License-Identifier: Apache-2.0
"""The table of docs/simulate.md that holds the simulator against published steps, and the bounds that it keeps."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts/compare_published.py"
ROWS = (REPOSITORY / "tests/simulate/published.jsonl").read_text(encoding="utf-8").splitlines()


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

    def test_the_simulator_keeps_its_bounds_and_the_document_says_so(self):
        ended = self.compare()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        document = (REPOSITORY / "docs/simulate.md").read_text(encoding="utf-8")
        self.assertIn(f"<!-- published: begin -->\n{ended.stdout}<!-- published: end -->", document)

    def test_a_row_that_is_far_off_is_named(self):
        rows = [json.loads(line) for line in ROWS]
        rows[2]["tokens_per_s_per_gpu"] *= 2
        ended = self.with_rows(rows)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("line 3 has a ratio of 0.5", ended.stderr)

    def test_machines_that_are_faster_than_all_rows_are_told(self):
        rows = [json.loads(line) for line in ROWS]
        for row in rows:
            row["tokens_per_s_per_gpu"] *= 0.9
        ended = self.with_rows(rows)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("the geometric mean is 1.10", ended.stderr)

    def test_a_kind_of_code_that_the_machine_does_not_know_is_an_error(self):
        ended = self.with_rows([json.loads(ROWS[0]) | {"code": "faster"}])
        self.assertEqual(ended.returncode, 1)
        self.assertIn('has no kind of code "faster"; allowed: compiled, eager, fused', ended.stderr)


if __name__ == "__main__":
    unittest.main()
