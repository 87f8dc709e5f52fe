# SPDX-License-Identifier: Apache-2.0
"""scripts/loop_times.py on records that are written here."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import loop_times  # noqa: E402

LOG = """\
# ninja log v5
0	9000	1	tests/CMakeFiles/test_a.dir/a.cpp.o	aa
0	5000	1	CMakeFiles/zeroth.dir/cmake_pch.hxx.gch	bb
5000	6500	1	CMakeFiles/zeroth.dir/src/core/b.cpp.o	cc
6500	7000	1	libzeroth.a	dd
9000	11000	2	tests/CMakeFiles/test_a.dir/a.cpp.o	aa
11000	11250	2	bin/test_a	ee
11250	12000	2	docs/page.md	ff
11250	12000	2	docs/page.json	ff
12000	12500	2	tests/CMakeFiles/test_a.dir/__/__/src/core/c.cpp.o	11
12500	13500	2	tests/CMakeFiles/test_b.dir/__/__/src/core/c.cpp.o	22
"""
COSTS = """\
quick 3 0.5
slow 2 61.25
never_run 0 0
---
failed
"""
JUNIT = """\
<testsuite name="all"><testcase name="quick" time="0.75" status="run"/><testcase name="other" time="2" status="run"/></testsuite>
"""


class LoopTimes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.build / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_it(self, *options):
        """(exit status, {title of a table: its lines}, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = loop_times.main(["--build", str(self.build), *options])
        tables = {}
        for part in filter(None, out.getvalue().split("\n\n")):
            title, *lines = part.strip("\n").splitlines()
            tables[title] = [line.strip() for line in lines]
        return status, tables, err.getvalue()

    def test_build_by_kind_target_and_source(self):
        self.write(".ninja_log", LOG)
        status, tables, _ = self.run_it()
        self.assertEqual(status, 0)
        # a.cpp was compiled twice, and the last time counts; a command with two outputs counts once.
        self.assertEqual(tables["Seconds of the build"],
                         ["5.0  precompiled headers (1)", "5.0  compilations (4)", "0.5  archives (1)", "0.2  links (1)",
                          "0.8  other (1)", "11.5  all (8)"])
        self.assertEqual(tables["The 10 longest targets"][:2], ["7.0  zeroth", "2.8  test_a"])
        self.assertEqual(tables["The 10 longest compilations"][0], "2.0  test_a: a.cpp")

    def test_sources_that_are_compiled_more_than_once(self):
        self.write(".ninja_log", LOG)
        _, tables, _ = self.run_it()
        self.assertEqual(tables["Sources that several targets compile"], ["1.5  src/core/c.cpp: test_a, test_b"])

    def test_lists_have_the_requested_length(self):
        self.write(".ninja_log", LOG)
        _, tables, _ = self.run_it("--longest", "1")
        self.assertEqual(tables["The 1 longest compilations"], ["2.0  test_a: a.cpp"])
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as err:
            loop_times.main(["--longest", "0"])
        self.assertIn("--longest is 0, and must be 1 or more", err.getvalue())

    def test_tests_of_ctests_own_record(self):
        self.write(".ninja_log", LOG)
        self.write("Testing/Temporary/CTestCostData.txt", COSTS)
        _, tables, _ = self.run_it()
        self.assertEqual(tables["Seconds of the tests"], ["61.8  all (2)"])
        self.assertEqual(tables["The 10 longest tests"], ["61.2  slow", "0.5  quick"])

    def test_tests_of_junit_files(self):
        self.write(".ninja_log", LOG)
        self.write("Testing/Temporary/CTestCostData.txt", COSTS)
        self.write("tests.xml", JUNIT)
        _, tables, _ = self.run_it()
        self.assertEqual(tables["The 10 longest tests"], ["2.0  other", "0.8  quick"])

    def test_unreadable_files_are_named(self):
        status, _, err = self.run_it()
        self.assertEqual(status, 2)
        self.assertIn(f"{self.build}/.ninja_log: no log of ninja", err)
        self.write(".ninja_log", LOG + "1\ttwo\t3\tfour\t5\n")
        status, _, err = self.run_it()
        self.assertEqual(status, 2)
        self.assertIn("line 12: '1\\ttwo\\t3\\tfour\\t5' where start, end, time, output and hash were expected", err)
        self.write(".ninja_log", LOG)
        self.write("Testing/Temporary/CTestCostData.txt", "quick 3\n")
        status, _, err = self.run_it()
        self.assertEqual(status, 2)
        self.assertIn("line 1: 'quick 3' where name, number of runs and seconds were expected", err)


if __name__ == "__main__":
    unittest.main()
