# SPDX-License-Identifier: Apache-2.0
"""The table of docs/simulate.md has the tool's current results for the measured runs."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts/compare_simulation.py"
MACHINES = REPOSITORY / "configs/machines"


@unittest.skipUnless("ZEROTH_TOOL" in os.environ, "ZEROTH_TOOL is set where the tool is built")
class SimulationError(unittest.TestCase):
    def compare(self, *words):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--zeroth", os.environ["ZEROTH_TOOL"], *words],
                              capture_output=True, text=True, check=False)

    def test_the_document_has_the_output_of_the_script(self):
        ended = self.compare()
        self.assertEqual(ended.returncode, 0, ended.stderr)
        document = (REPOSITORY / "docs/simulate.md").read_text(encoding="utf-8")
        self.assertIn(f"<!-- measured: begin -->\n{ended.stdout}<!-- measured: end -->", document)
        self.assertEqual(ended.stdout.count("fitted"), 1)

    def test_the_document_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "page.md"
            document.write_text("before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nafter\n", encoding="utf-8")
            self.assertEqual(self.compare("--document", document).returncode, 0)
            text = document.read_text(encoding="utf-8")
        self.assertNotIn("old", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))

    def rates(self, folder):
        text = [(folder / name).read_text(encoding="utf-8") for name in ("two_cores.json", "two_cores_shared.json")]
        return [float(re.search(r'"peak_flops_per_s": ([^,]*)', machine)[1]) for machine in text]

    def test_the_machines_are_the_fitted_ones(self):
        kept = self.rates(MACHINES)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file in MACHINES.glob("*.json"):
                text = file.read_text(encoding="utf-8")
                (folder / file.name).write_text(re.sub(r'("peak_flops_per_s": )[^,]*', r"\g<1>7e10", text), encoding="utf-8")
            self.assertEqual(self.rates(folder), [7e10, 7e10])
            ended = self.compare("--fit", "--machines", folder)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            fitted = self.rates(folder)
        for before, after in zip(kept, fitted):
            self.assertAlmostEqual(before / after, 1, delta=0.01)

    def test_a_missing_file(self):
        ended = self.compare("--measured", "nowhere.jsonl")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("nowhere.jsonl: No such file", ended.stderr)


if __name__ == "__main__":
    unittest.main()
