# SPDX-License-Identifier: Apache-2.0
"""scripts/report.py against reports made by hand."""

import contextlib
import html.parser
import io
import math
import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import report  # noqa: E402
import sample_runs  # noqa: E402
from lib import axes  # noqa: E402


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, runs, *options):
        """(exit status, standard output, standard error) of the program on `runs`, a list of lists of records."""
        arguments = list(options)
        for stage, lines in enumerate(runs):
            path = self.folder / f"stage{stage}.jsonl"
            sample_runs.write(path, lines)
            arguments.append(f"stage {stage}={path}")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = report.main(arguments)
        return status, out.getvalue(), err.getvalue()

    def test_table_has_every_figure(self):
        status, out, _ = self.report([sample_runs.records(stage) for stage in range(4)])
        self.assertEqual(status, 0)
        lines = [re.split(r" {2,}", line) for line in out.splitlines()]
        self.assertIn(["stage 0", "planned", "12.59", "12.59", "25.18", "0.00", "0.02", "50.38"], lines)
        self.assertIn(["", "measured", "3.15", "3.15", "6.29", "12.05", "0.02", "24.66", "51.0 %", "2.23311374", "4,796"],
                      lines)
        self.assertIn("The losses of all 60 steps are equal, digit for digit.", out)
        self.assertIn("Measured memory is what was planned, to the byte, on every rank.", out)

    def test_the_fullest_rank_counts(self):
        lines = sample_runs.records(0)
        lines[-2]["planned"]["parameters"] += 1024 * 1024
        lines[-2]["planned"]["total"] += 1024 * 1024
        lines[-2]["measured_peak"] = lines[-2]["planned"]
        status, out, _ = self.report([lines])
        self.assertEqual(status, 0)
        self.assertIn("13.59", out)

    def test_one_digit_of_one_loss_is_found(self):
        other = sample_runs.records(1)
        other[17]["loss"] += 1e-8
        status, out, _ = self.report([sample_runs.records(0), other])
        self.assertEqual(status, 1)
        self.assertIn("FAILED: The losses differ from step 17 on: stage 0 ", out)

    def test_a_shorter_run_is_found(self):
        status, out, _ = self.report([sample_runs.records(0), sample_runs.records(1, steps=59)])
        self.assertEqual(status, 1)
        self.assertIn("FAILED: The losses differ from step 60 on: stage 0 2.23311374.", out)

    def test_one_byte_over_plan_is_found(self):
        other = sample_runs.records(1)
        other[-1]["measured_peak"] = dict(other[-1]["measured_peak"])
        other[-1]["measured_peak"]["scratch"] += 1
        other[-1]["measured_peak"]["total"] += 1
        status, out, _ = self.report([sample_runs.records(0), other])
        self.assertEqual(status, 1)
        self.assertIn("FAILED: Measured memory is not what was planned: stage 1.", out)

    def test_bad_files_are_named_with_their_line(self):
        lines = sample_runs.records(0)
        cases = [
            ([], r"stage0\.jsonl: nothing was recorded"),
            ([lines[0], {"record": "stop"}], r"stage0\.jsonl:2: record is \"stop\"; it must be \"run\" or \"step\" or"),
            ([lines[0], lines[2]], r"stage0\.jsonl:2: step 2 where step 1 should be"),
            ([lines[0], {**lines[1], "loss": None}], r"stage0\.jsonl:2: loss is null; it must be a number"),
            ([lines[0], {**lines[1], "loss": math.nan}], r"stage0\.jsonl:2: loss is NaN; it must be a number"),
            ([lines[0], {**lines[1], "step_ms": "12"}], r"stage0\.jsonl:2: step_ms is \"12\"; it must be a number above 0"),
            ([lines[0]], r"stage0\.jsonl: no step was recorded"),
            (lines[:5], r"stage0\.jsonl: no memory was recorded"),
            ([*lines[:5], {**lines[-1], "planned": {**lines[-1]["planned"], "total": 1}}],
             r"stage0\.jsonl:6: planned: adds up to 52826112, not to total, 1"),
        ]
        for bad, message in cases:
            with self.subTest(message=message):
                status, _, err = self.report([bad])
                self.assertEqual(status, 2)
                self.assertRegex(err, message)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.assertEqual(report.main(["stage 0=/nowhere/run.jsonl"]), 2)
        self.assertIn("/nowhere/run.jsonl: No such file or directory", err.getvalue())

    def test_page_needs_nothing_else(self):
        page = self.folder / "page.html"
        options = ("--html", str(page), "--title", "A<B")
        status, _, _ = self.report([sample_runs.records(stage) for stage in range(4)], *options)
        self.assertEqual(status, 0)
        text = page.read_text(encoding="utf-8")
        for resource in ("<script", "<link", "<img", "@import", "url(", "src="):
            self.assertNotIn(resource, text)
        self.assertEqual(re.findall(r"https?://[^\"]*", text), ["http://www.w3.org/2000/svg"] * 3)
        self.assertIn("<h1>A&lt;B</h1>", text)
        self.assertIn("51.0 % saved", text)
        drawings = [xml.etree.ElementTree.fromstring(d) for d in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
        self.assertEqual(len(drawings), 3)
        self.assertTrue(all(self.inside(drawing) for drawing in drawings))
        html.parser.HTMLParser().feed(text)

    def resumed(self, first, second, weights=(b"w" * 5000, b"w" * 5000), options=()):
        """Like report(), for stages 0 and 3 and a run in two parts."""
        files = [self.folder / name for name in ("first.jsonl", "second.jsonl", "straight", "resumed")]
        sample_runs.write(files[0], first)
        sample_runs.write(files[1], second)
        for file, content in zip(files[2:], weights):
            file.write_bytes(content)
        return self.report([sample_runs.records(0), sample_runs.records(3)], "--resumed", *map(str, files[:2]), "--weights",
                           *map(str, files[2:]), *options)

    def test_a_resumed_run_equals_an_uninterrupted_one(self):
        page = self.folder / "page.html"
        status, out, _ = self.resumed(sample_runs.records(0, steps=25), sample_runs.records(3, behind=25),
                                      options=("--html", str(page)))
        self.assertEqual(status, 0)
        told = ("A run that was saved behind step 25 at stage 0 and went on in another process at stage 3 is one that never "
                "ended: equal losses, digit for digit, and equal weights, all 5,000 bytes.")
        self.assertIn(told, out)
        lines = [re.split(r" {2,}", line) for line in out.splitlines()]
        self.assertEqual([line[0] for line in lines if "planned" in line], ["stage 0", "stage 1", "stage 0, then 3"])
        text = page.read_text(encoding="utf-8")
        self.assertIn(told, text)
        self.assertIn("saved, and gone on", text)
        self.assertEqual(text.count("<polyline"), 3)
        status, _, _ = self.resumed(sample_runs.records(0, steps=30), sample_runs.records(3, behind=25))
        self.assertEqual(status, 0)  # steps of the first part after its checkpoint do not count

    def test_a_resumed_run_that_differs_is_found(self):
        first, second = sample_runs.records(0, steps=25), sample_runs.records(3, behind=25)
        status, out, _ = self.resumed(first, second, weights=(b"a", b"b"))
        self.assertEqual(status, 1)
        self.assertIn("is not one that never ended: its weights differ.", out)
        second[5]["loss"] += 1e-8
        status, out, _ = self.resumed(first, second)
        self.assertEqual(status, 1)
        self.assertIn("is not one that never ended: its losses from step 30 on differ.", out)
        second.pop(5)
        status, _, err = self.resumed(first, second)
        self.assertEqual(status, 2)
        self.assertIn("second.jsonl:6: step 31 where step 30 should be", err)
        status, _, err = self.resumed(sample_runs.records(0, steps=24), sample_runs.records(3, behind=25))
        self.assertEqual(status, 2)
        self.assertRegex(err, r"second\.jsonl: goes on behind step 25, and .*first\.jsonl has steps 1 to 24")
        status, _, err = self.report([sample_runs.records(3, behind=25)])
        self.assertEqual(status, 2)
        self.assertIn("resumes from step 25 of saved/step_00000025; it is compared as the second file of --resumed", err)

    def inside(self, drawing):
        """Every bar is wide enough to be seen, and lies within the drawing."""
        width = float(drawing.attrib["viewBox"].split()[2])
        bars = drawing.findall(".//{http://www.w3.org/2000/svg}rect")
        return all(float(b.attrib["width"]) > 0 and float(b.attrib["x"]) + float(b.attrib["width"]) < width for b in bars)

    def test_ticks_are_round_and_enclose(self):
        for low, high in ((0, 50.4), (2.17, 5.5), (0, 0.003), (0, 431.7), (1, 60)):
            marks = axes.ticks(low, high)
            self.assertLessEqual(marks[0], low + 1e-12)
            self.assertGreaterEqual(marks[-1], high - 1e-12)
            self.assertTrue(3 <= len(marks) <= 9, marks)
        self.assertEqual(axes.tick_text(1234.5, 2.5), "1,234.5")
        self.assertEqual(axes.tick_text(0.25, 0.05), "0.25")


if __name__ == "__main__":
    unittest.main()
