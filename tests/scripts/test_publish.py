# SPDX-License-Identifier: Apache-2.0
"""scripts/report.py --measured: the documents' blocks and the pictures match the kept files, or it reports them."""

import contextlib
import html.parser
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import report  # noqa: E402
import sample_measurements  # noqa: E402
import sample_runs  # noqa: E402
from lib import markdown, publish  # noqa: E402

NAMES = [section.NAME for section in publish.SECTIONS]
PICTURES = ["memory.svg", "step_time.svg", "savings.svg",
            *(f"peers_{maker}_{precision}.svg" for maker in ("amd", "intel") for precision in ("fp32", "bf16"))]


class Kept(unittest.TestCase):
    """The files of the repository."""

    def test_readme_and_pictures_match_the_kept_files(self):
        """Runs it with Python only, without packages, even installed ones."""
        ended = subprocess.run([sys.executable, "-I", "-S", "-B", "scripts/report.py", "--check", "--measured",
                                "docs/measured", "--pictures", "docs/pictures", "--documents", "README.md",
                                "docs/benchmarks.md"],
                               cwd=REPOSITORY, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("to the last printed digit", ended.stdout)

    def test_every_picture_is_made_from_the_kept_files(self):
        patterns = [pattern for section in publish.SECTIONS for pattern in section.PICTURES]
        for path in (REPOSITORY / "docs/pictures").iterdir():
            self.assertTrue(any(path.match(pattern) for pattern in patterns), path)

    @unittest.skipUnless("ZEROTH_TOOL" in os.environ, "ZEROTH_TOOL is set where the tool is built")
    def test_the_tool_still_simulates_the_kept_figures(self):
        kept = json.loads((REPOSITORY / "docs/measured/simulated.json").read_text(encoding="utf-8"))
        words = [os.environ["ZEROTH_TOOL"], "simulate", "--model", kept["model"]["name"].split()[-1], "--ranks",
                 str(kept["ranks"]), "--machine", kept["machine"], "--json"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.assertEqual(json.loads(told), kept)

    @unittest.skipUnless("ZEROTH_TOOL" in os.environ, "ZEROTH_TOOL is set where the tool is built")
    def test_the_tool_still_plans_the_kept_figures(self):
        lines = (REPOSITORY / "docs/measured/savings.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertGreaterEqual(len(lines), 30)
        for line in lines:
            kept = json.loads(line)
            words = [os.environ["ZEROTH_TOOL"], "plan", "--parameters", kept["model"]["parameters"], "--units",
                     kept["model"]["units"], "--ranks", kept["ranks"], "--device-memory",
                     kept["device_memory"] // 2**30, "--json"]
            told = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
            self.assertEqual(told.returncode, 3 if "advice" in kept else 0, told.stderr)
            self.assertEqual(json.loads(told.stdout), kept)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.measured, self.pictures = self.folder / "measured", self.folder / "docs" / "pictures"
        self.readme, self.page = self.folder / "README.md", self.folder / "out" / "page.html"
        sample_measurements.write_all(self.measured)
        blocks = "".join(f"{begin}\nold {begin[5:9]}\n{end}\nbetween\n" for begin, end in map(markdown.marks, NAMES))
        self.readme.write_text(f"before\n{blocks}after\n", encoding="utf-8")

    def publish(self, *options):
        """(exit status, standard output, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            documents = [] if "--documents" in options else ["--documents", str(self.readme)]
            status = report.main(["--measured", str(self.measured), "--pictures", str(self.pictures), *options, *documents])
        return status, out.getvalue(), err.getvalue()

    def block(self, name):
        begin, end = markdown.marks(name)
        return self.readme.read_text(encoding="utf-8").split(begin)[1].split(end)[0]

    def change(self, name, edit):
        """Edits the records of a kept file in place."""
        path = self.measured / name
        if path.suffix == ".json":
            document = json.loads(path.read_text(encoding="utf-8"))
            edit(document)
            path.write_text(json.dumps(document), encoding="utf-8")
        else:
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            edit(lines)
            sample_runs.write(path, lines)


class Published(Folder):
    def test_blocks_hold_the_figures_of_the_files(self):
        status, _, err = self.publish("--html", str(self.page))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("| stage 3 | 3.15 | 3.15 | 6.29 | 12.05 | 0.02 | 24.66 | 51.0 % | 2.23311374 | 4,796 |",
                      self.block("demo"))
        self.assertIn("| stage 3 | 24.66 | 51.0 % | 4,796 | 5.00 | 95.0 % | 5,000 |", self.block("stages"))
        self.assertIn("| L2 | 4 | 1.00 (0.98 - 1.03) | 0.97 (0.95 - 1.00) | 0.98 (0.96 - 1.01) | 1.12 (1.10 - 1.15) | "
                      "8,312 |", self.block("step_time"))
        self.assertIn("| 7.5B | 64 | 120 (120) | 31.4 (31.4) | 16.6 (17.6) | 1.88 (3.75) |", self.block("savings"))
        self.assertIn("All 54 figures of the ZeRO paper's table 1 are met", self.block("savings"))
        self.assertIn("| Zeroth 3 | 1.20 (0.6 s) | 0.01 (0.001 s) | - | 1.10 (0.44 s) | 2.00 (0.8 s) | 1 |", self.block("checkpoints"))
        self.assertIn("| DeepSpeed 3 | 4.00 (2 s) | - | 22.00 (11 s) | - | - | - |", self.block("checkpoints"))
        self.assertIn("AMD \\| EPYC", self.block("checkpoints"))
        self.assertIn("- DeepSpeed 3, round 1: no answer within 300 s\n", self.block("checkpoints"))
        tensor = self.block("tensor")
        self.assertIn("|  | load | Zeroth | Zeroth, sequence | Zeroth, MPI | Zeroth, stage 0 | DTensor | Megatron-Core |", tensor)
        self.assertIn("| fp32 | L1 | 2,640 | 2,530 | 2,420 | 2,970 | 1,575 (tuned) | 1,680 (tuned) |", tensor)
        self.assertIn("| bf16 | L2 | 140 | 160 | 160 | 280 | 200 (lean) | 260 (tuned) |", tensor)
        self.assertIn("torch 2.15.0; median of 3 rounds, of peers median of 2 rounds. L1: 6 layers", tensor)
        for row in ("tokens/s over DTensor's fastest | at least L1 1.5 and L2 2 | 1.600 | 1.600 | 1.600, missed | 1.600, missed",
                    "peak memory per rank over DTensor's leanest | at most 0.75 | 0.700 | 0.700 | 0.700 | 0.700",
                    "the same with sequence parallelism | at most 0.75 | 0.800, missed | 0.800, missed",
                    "tokens/s with sequence parallelism over without | at least 0.97 | 0.958, missed | 0.958, missed",
                    "tokens/s over stage 0 on the same two ranks | at least L1 0.85 | 0.889 | 0.889 | 0.889 | 0.889",
                    "10^9 values of masks per second and core, by AVX-512 | at least 1 | 1.75 |  |  |  |"):
            self.assertIn(f"| {row}", tensor)
        self.assertIn("- L2, bf16, round 1: megatron tuned did not run: RuntimeError: gloo \\| broke\n", tensor)
        self.assertIn("The losses of all contenders agree, within 1e-05 in fp32, 0.002 in bf16.\n", tensor)
        peers = self.block("peers")
        amd, intel = peers.split("### Intel\n")
        self.assertIn("### AMD\n", amd)
        for block, faster in ((amd, "| bf16 | L1 | 2 | 5,460 | 2.39 x | 5,200 | 4.04 x | 6.06 x |"),
                              (intel, "| bf16 | L1 | 2 | 8,190 | 3.58 x | 7,800 | 6.06 x | 9.09 x |")):
            self.assertIn("| fp32 | L1 | 2 | 2,730 | 1.19 x | 2,600 | 2.02 x | 3.03 x |", block)
            self.assertIn("| fp32 | state | 4 | 1,400 | 1,960 | 560 | 1,260 (lean 756) | 1,680 (lean 1,008) |", block)
            self.assertIn(faster, block)
        self.assertIn("| fp32 | L2 | 4 | 150 | 210 | 60 | 135 (lean 81) | 180 |", amd)
        self.assertIn("- fp32, L2, 4 ranks, deepspeed3 lean: 3 of 3 rounds did not run: RuntimeError", amd)
        self.assertNotIn("deepspeed3 lean: 3 of 3", intel)
        self.assertIn("A processor (instructions: AVX2), 2 cores, 24 GiB, Linux; Zeroth 0123abc, python 3.11.2, torch 2.15.0; "
                      "Zeroth's products in fp32 by Eigen 3.4.0, bf16 by oneDNN 2.6.3; median of 3 rounds.", amd)
        lead = self.block("lead")
        self.assertNotIn("| L1 | 2 |", lead, "the most ranks only")
        self.assertIn("| AMD, fp32 | L1 | 4 | 1.19 x | 2,600 | 2.02 x | 3.03 x | 76 | 171 (lean 103) | 228 (lean 137) |", lead)
        self.assertIn("| AMD, bf16 | L1 | 4 | 2.39 x | 5,200 | 4.04 x | 6.06 x |", lead)
        self.assertIn("| Intel, bf16 | L1 | 4 | 3.58 x | 7,800 | 6.06 x | 9.09 x |", lead)
        self.assertIn("Intel: A processor (instructions: AVX2), 2 cores.", lead)
        text = self.readme.read_text(encoding="utf-8")
        self.assertEqual(text.count("\nbetween\n"), len(NAMES))
        self.assertNotIn("old", text)
        for name in PICTURES:
            self.assertIn(f"](docs/pictures/{name})", text)
            self.assertTrue((self.pictures / name).is_file())

    def test_pictures_and_page_need_nothing_else(self):
        self.publish("--html", str(self.page), "--title", "A<B")
        for path in (self.page, *self.pictures.iterdir()):
            text = path.read_text(encoding="utf-8")
            for resource in ("<script", "<link", "<img", "<image", "<use", "@import", "url(", "src=", "href=", "@font-face"):
                self.assertNotIn(resource, text, path.name)
            self.assertEqual(set(re.findall(r"https?://[^\"]*", text)), {"http://www.w3.org/2000/svg"})
            self.assertIn("prefers-color-scheme: dark", text)
        page = self.page.read_text(encoding="utf-8")
        self.assertIn("<h1>A&lt;B</h1>", page)
        self.assertEqual(len(re.findall(r"<svg.*?</svg>", page, re.DOTALL)), 9)  # memory, loss, time; and six

    def test_a_second_run_changes_nothing_and_passes_the_check(self):
        self.publish()
        before = {path: path.read_bytes() for path in (self.readme, *self.pictures.iterdir())}
        self.assertEqual(self.publish("--check")[0], 0)
        self.assertEqual(self.publish()[0], 0)
        self.assertEqual({path: path.read_bytes() for path in before}, before)

    def test_check_finds_a_changed_digit_and_writes_nothing(self):
        self.publish()
        for path, old, new in ((self.readme, "24.66", "24.67"), (self.pictures / "memory.svg", "24.7 MiB", "24.8 MiB"),
                               (self.pictures / "savings.svg", "printed", "Printed")):
            with self.subTest(path=path.name):
                right = path.read_text(encoding="utf-8")
                wrong = right.replace(old, new, 1)
                self.assertNotEqual(right, wrong)
                path.write_text(wrong, encoding="utf-8")
                status, out, _ = self.publish("--check")
                self.assertEqual(status, 1)
                self.assertIn(f"FAILED: {path} is not what the files make", out)
                self.assertEqual(path.read_text(encoding="utf-8"), wrong)
                path.write_text(right, encoding="utf-8")

    def test_check_finds_a_changed_file(self):
        self.publish()
        self.change("step_time.jsonl", lambda lines: lines[3].update(ratio_to_stage_0=1.13))
        status, out, _ = self.publish("--check")
        self.assertEqual(status, 1)
        self.assertIn(f"FAILED: {self.readme} is not", out)
        self.assertIn("step_time.svg is not", out)
        self.assertNotIn("memory.svg is not", out)

    def test_a_rehearsal_is_rejected(self):
        before = self.readme.read_text(encoding="utf-8")
        self.change("gpu.json", lambda check: check.update(rehearsal="without a GPU"))
        status, _, err = self.publish()
        self.assertEqual(status, 2)
        self.assertIn("gpu.json: is a rehearsal without a GPU; it must be a check of a GPU", err)
        self.assertEqual(self.readme.read_text(encoding="utf-8"), before)

    def test_a_missing_file_leaves_its_block_empty(self):
        self.publish()
        (self.measured / "peers_intel.json").unlink()
        self.assertEqual(self.publish("--check")[0], 1)
        self.assertEqual(self.publish()[0], 0)
        self.assertNotIn("Intel", self.block("peers") + self.block("lead"))
        for name, file in (("peers", "peers_*.json"), ("tensor", "tensor.json"), ("checkpoints", "checkpoints.json"), ("step_time", "step_time.jsonl"),
                           ("gpu", "gpu.json"), ("demo", "demo/stage2.jsonl")):
            for path in self.measured.glob(file):
                path.unlink()
            status, out, _ = self.publish("--check")
            self.assertEqual(status, 1, "the README shows figures of no file")
            status, out, _ = self.publish("--html", str(self.page))
            self.assertEqual(status, 0)
            self.assertIn(f"{name} is left out: no file {self.measured / file}; scripts/record.sh {name} makes it", out)
            self.assertEqual(self.block(name), "\n")
        self.assertEqual([path.name for path in self.pictures.iterdir()], ["savings.svg"])
        self.assertEqual(self.publish("--check")[0], 0)
        self.assertIn("1.88", self.block("savings"))
        self.assertEqual(self.page.read_text(encoding="utf-8").count("<h2>"), 1)

    def test_without_measurements_nothing_is_made(self):
        shutil.rmtree(self.measured)
        status, out, _ = self.publish()
        self.assertEqual(status, 0)
        self.assertEqual(out.count("is left out"), len(NAMES))
        self.assertNotRegex(self.readme.read_text(encoding="utf-8"), r"\d")

    def test_a_document_without_marks_is_unchanged(self):
        whole = self.readme.read_text(encoding="utf-8")
        begin, end = markdown.marks("peers")
        for bad in (whole.replace(begin, ""), whole.replace(end, ""), whole + begin, whole.replace(begin, "x").replace(end, begin)):
            self.readme.write_text(bad, encoding="utf-8")
            status, _, err = self.publish()
            self.assertEqual(status, 2)
            self.assertIn(f'must hold "{begin}" and "{end}" once', err)
            self.assertEqual(self.readme.read_text(encoding="utf-8"), bad)
            self.assertFalse(self.pictures.exists())

    def test_blocks_are_written_to_the_document_that_has_their_marks(self):
        other = self.folder / "docs" / "other.md"
        other.parent.mkdir()
        begin, end = markdown.marks("peers")
        other.write_text(f"{begin}\n{end}\n", encoding="utf-8")
        whole = self.readme.read_text(encoding="utf-8")
        status, _, err = self.publish("--documents", str(self.readme), str(other))
        self.assertEqual((status, self.readme.read_text(encoding="utf-8")), (2, whole), "both have the marks")
        self.assertIn("2 have such marks", err)
        self.readme.write_text(whole.replace(begin, "").replace(end, ""), encoding="utf-8")
        status, _, err = self.publish("--documents", str(self.readme), str(other))
        self.assertEqual((status, err), (0, ""))
        self.assertIn("](pictures/peers_intel_bf16.svg)", other.read_text(encoding="utf-8"))
        self.assertNotIn("peers_intel_bf16.svg", self.readme.read_text(encoding="utf-8"))
        self.assertEqual(self.publish("--check", "--documents", str(self.readme), str(other))[0], 0)

    def test_claims_that_do_not_hold_are_reported(self):
        def another_loss(document):
            next(run for run in reversed(document["runs"]) if run["precision"] == "fp32")["losses"][1] *= 1 + 2e-5
        self.change("peers_intel.json", another_loss)
        self.change("savings.jsonl", lambda lines: lines[6]["stages"][3].update(
            parameters=10**9, total=10**9 + sum(lines[6]["stages"][3][key] for key in (
                "gradients", "optimizer", "slots", "scratch", "padding"))))
        self.change("tensor.json", lambda kept: kept["runs"][-1]["losses"].__setitem__(1, 4.3))
        status, out, _ = self.publish()
        self.assertEqual(status, 1)
        self.assertIn("FAILED: L2, bf16, zeroth stage 0, before: another loss in step 2", out)
        self.assertIn("FAILED: Intel: fp32, state, 4 ranks, round 2, deepspeed3 lean: the loss of step 2 is", out)
        self.assertNotIn("In fp32 all losses", out)
        self.assertIn("In bf16 all losses", out)
        self.assertIn("FAILED: Not as in the ZeRO paper's table 1: 7.5B on 64 ranks at stage 3: 2.641, printed 1.88.", out)
        self.assertIn("Not as in the ZeRO paper's table 1", self.block("savings"))

    def test_a_precision_without_runs_has_no_claims(self):
        def gone(document):
            document["failures"] += [{**run, "error": "no such instruction"} for run in document["runs"]
                                     if run["precision"] == "bf16"]
            for key in ("runs", "summary"):
                document[key] = [each for each in document[key] if each["precision"] == "fp32"]
            document["math"]["bf16"] = "nothing"
        for maker in ("amd", "intel"):
            self.change(f"peers_{maker}.json", gone)
        status, out, _ = self.publish()
        self.assertEqual(status, 0)
        self.assertIn("In fp32 all losses", out)
        self.assertNotIn("In bf16 all losses", out)
        self.assertIn("| bf16 | L1 | 2 | did not run | did not run | did not run |", self.block("peers"))

    def test_contradictory_options(self):
        for words, message in ((["--measured", "x", "a=b"], "give runs as LABEL=FILE, or --measured"), ([], "give runs"),
                               (["a=b", "--pictures", "x"], "go with --measured"),
                               (["--measured", "x", "--documents", "y"], "need --pictures")):
            err = io.StringIO()
            with contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as end:
                report.main(words)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(message, err.getvalue())


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, [name for name, _ in attributes]))


class Hostile(Folder):
    """Text of a file is shown as text, whatever its content."""

    TEXT = '"><script>alert(1)</script><img src=x onerror=y> ]]> & | `x` [a](javascript:b) <!-- peers: end -->\n# h'

    def test_text_is_escaped(self):
        def facts(lines):
            lines[0]["data"]["path"] = self.TEXT

        def names(document):
            document["machine"].update(processor=self.TEXT, system=self.TEXT)
            document["zeroth"] = self.TEXT
            document["versions"] = {self.TEXT: self.TEXT}
            document["loads"][self.TEXT] = document["loads"].pop("state")
            for record in (*document["runs"], *document["summary"]):
                record["load"] = self.TEXT if record["load"] == "state" else record["load"]
            document["failures"][0].update(system=self.TEXT, variant=self.TEXT, error=self.TEXT)

        self.change("demo/stage0.jsonl", facts)
        self.change("peers_amd.json", names)
        self.change("step_time.jsonl", lambda lines: [line.update(load=self.TEXT) for line in lines if line["load"] == "L1"])
        status, _, err = self.publish("--html", str(self.page))
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(self.publish("--check")[0], 0, "marks in the text have not moved the README's")
        for path in (self.page, *self.pictures.iterdir()):
            tags = Tags(path.read_text(encoding="utf-8")).found
            self.assertGreater(len(tags), 20)
            self.assertNotIn("script", [tag for tag, _ in tags])
            self.assertNotIn("img", [tag for tag, _ in tags])
            self.assertFalse([name for _, names in tags for name in names if name.startswith("on")])
            if path.suffix == ".svg":
                xml.etree.ElementTree.parse(path)
        for name in ("demo", "step_time", "peers"):
            block = self.block(name)
            self.assertIn("alert", block)
            self.assertNotRegex(block, r"(?<!\\)<(?!!--)")
            self.assertNotRegex(block, r"(?<!\\)\]\(javascript")
            self.assertNotIn("\n# h", block)


class Record(unittest.TestCase):
    def test_an_unknown_part_is_refused_before_anything_runs(self):
        ended = subprocess.run([REPOSITORY / "scripts/record.sh", "savings", "speed"], capture_output=True, text=True,
                               check=False)
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertEqual(ended.stderr, 'error: "speed" is not a part; parts are demo stages gpu step_time peers '
                                       'tensor checkpoints savings silent adamw collectives engine_overhead products '
                                       'muon codecs pipeline servers\n')

    def test_every_section_is_a_part_and_every_part_a_function(self):
        text = (REPOSITORY / "scripts/record.sh").read_text(encoding="utf-8")
        parts = re.search(r"\nall=\((.*)\)\n", text).group(1).split()
        needed = list(dict.fromkeys(publish.part(section) for section in publish.SECTIONS))
        self.assertEqual(parts[:len(needed)], needed)
        for part in parts:
            self.assertIn(f"\n{part}() {{", text)


if __name__ == "__main__":
    unittest.main()
