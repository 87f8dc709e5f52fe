# SPDX-License-Identifier: Apache-2.0
"""random_jobs.py with substitutes for test_jobs."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import random_jobs  # noqa: E402

# The second process, whose seed is larger by APART, has seen another pair, and fails in `mode` "fails".
PROGRAM = """#!{python}
import sys
seed = int(sys.argv[sys.argv.index("--seed") + 1])
second = seed >= 10**9
if "{mode}" == "dies" and second:
    sys.exit("no memory")
failed = 1 if "{mode}" == "fails" and second else 0
print(f"jobs from seed {{seed}} on")
if failed:
    print("FAILED: job 7\\n{{}}\\nfirst difference: step 1\\nagain: test_jobs --only 7")
print(f"10 jobs, 1 refused as documented, {{failed}} failed")
if "--pairs" in sys.argv:
    print("2 of 4 pairs of values have met; missing:")
    print("  a 1 x b 1")
    print("  a 2 x b 2" if second else "  a 3 x b 3")
"""


def run(mode, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "bin/test_jobs"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, mode=mode), encoding="utf-8")
        program.chmod(0o755)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            status = random_jobs.main(["--build", folder, "--processes", "2", *arguments])
        return status, text.getvalue()


class RandomJobs(unittest.TestCase):
    def test_processes_are_added_up(self):
        self.assertEqual(run("passes"), (0, "20 jobs, 2 refused as documented, 0 failed, 0 of 2 processes did not end\n"))

    def test_a_pair_that_no_process_has_seen_is_missing(self):
        status, text = run("passes", "--pairs")
        self.assertEqual(status, 0)
        self.assertTrue(text.endswith("3 of 4 pairs of values have met; missing:\n  a 1 x b 1\n"), text)

    def test_a_failure_is_printed_with_its_seed(self):
        status, text = run("fails")
        self.assertEqual(status, 1)
        self.assertIn("FAILED: job 7\n", text)
        self.assertIn("again: test_jobs --only 7\n", text)

    def test_a_process_that_dies_is_a_failure_and_shows_its_output(self):
        status, text = run("dies")
        self.assertEqual(status, 1)
        self.assertIn("no memory", text)
        self.assertIn("1 of 2 processes did not end", text)


if __name__ == "__main__":
    unittest.main()
