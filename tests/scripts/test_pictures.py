# SPDX-License-Identifier: Apache-2.0
"""The pictures show the figures of the files: every bar, curve and ring is measured against the axis drawn below it."""

import json
import math
import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import sample_measurements  # noqa: E402
from lib import axes, peers_file, peers_table, publish, savings, step_time, zero_paper  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
MIB = 2**20
UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}


def hint(element):
    return element.findtext(f"{SVG}title") or ""


def value_of(text):
    """The value of a mark: 1,200 or 10 GB."""
    number, _, unit = text.replace(",", "").partition(" ")
    return float(number) * UNITS.get(unit, 1)


def marks(part, anchor, position):
    """(value, position) of the marks of an axis, whose texts have this anchor."""
    found = [(text.text, float(text.attrib[position])) for text in part.iter(f"{SVG}text")
             if "axis" in text.attrib.get("class", "") and text.attrib.get("text-anchor") == anchor]
    return [(value_of(text), at) for text, at in found if re.fullmatch(r"[\d,.]+( [MGT]B)?", text)]


def written(text):
    """The text that is shown, without hints."""
    hidden = "".join(title.text for title in text.iter(f"{SVG}title"))
    return "".join(text.itertext()).replace(hidden, "") if hidden else "".join(text.itertext())


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name) / "measured"
            sample_measurements.write_all(folder)
            cls.found, _ = publish.present(folder)
            cls.drawn = {picture: xml.etree.ElementTree.fromstring(text) for section, data in cls.found
                         for picture, text in section.pictures(data).items()}

    def panels(self, picture):
        return {group.attrib["aria-label"]: group for group in self.drawn[picture].iter(f"{SVG}g")}

    def linear(self, part):
        """The value at a horizontal position by the marks below, which must be evenly spaced."""
        found = sorted(marks(part, "middle", "x"))
        self.assertGreaterEqual(len(found), 3)
        (first, x0), (last, x1) = found[0], found[-1]
        self.assertEqual(first, 0)
        for value, x in found:
            self.assertAlmostEqual(x, x0 + value / last * (x1 - x0), delta=0.02)
        return lambda x: (x - x0) / (x1 - x0) * last, last / (x1 - x0) * 0.02

    def test_step_time(self):
        lines = {(f"{line['load']}, {line['ranks']} ranks", line["stage"]): line for line in sample_measurements.step_time()}
        panels = self.panels("step_time.svg")
        self.assertEqual(list(panels), ["L1, 2 ranks", "L1, 4 ranks", "L2, 2 ranks", "L2, 4 ranks"])
        for name, panel in panels.items():
            at, within = self.linear(panel)
            bars = {hint(bar).split(":")[0]: bar for bar in panel.iter(f"{SVG}rect")}
            self.assertEqual(len(bars), 8)
            for stage in range(4):
                line = lines[name, stage]
                compute, exposed = (bars[f"{name}, stage {stage}, {word}"] for word in ("compute", "exposed"))
                begin, middle = float(compute.attrib["x"]), float(exposed.attrib["x"])
                end = middle + float(exposed.attrib["width"])
                self.assertAlmostEqual(at(begin), 0, delta=within)
                self.assertAlmostEqual(at(end), line["step_ms"], delta=within)
                self.assertAlmostEqual(at(end) - at(middle), line["exposed_comm_ms"], delta=within)
                self.assertAlmostEqual(middle, begin + float(compute.attrib["width"]), delta=0.02)

    def test_peers(self):
        for precision, gone in (("fp32", 1), ("bf16", 0)):
            with self.subTest(precision=precision):
                self.assertEqual(self.bars_of_peers(precision), 2 * (5 * 15 - gone))

    def bars_of_peers(self, precision):
        """Checks all bars and returns their number."""
        summary = {(f"{s['load']}, {s['ranks']} ranks", s["contender"]): s
                   for s in sample_measurements.peers()["summary"] if s["precision"] == precision}
        panels = self.panels(f"peers_amd_{precision}.svg")
        self.assertEqual(len(panels), 10)
        seen = 0
        for name, panel in panels.items():
            setting, _, caption = name.rpartition(", ")
            at, within = self.linear(panel)
            bars = {hint(bar).split(":")[0].removeprefix(setting + ", "): bar for bar in panel.iter(f"{SVG}rect")}
            for system, (shown, variants) in peers_table.SYSTEMS.items():
                for variant in variants:
                    told = summary.get((setting, peers_file.contender(system, variant)))
                    if told is None:
                        self.assertNotIn(f"{shown} {variant}", bars)
                        continue
                    bar = bars[f"{shown} {variant}"]
                    value = told["tokens_per_s"] if "tokens" in caption else told["peak_bytes_per_rank"] / MIB
                    begin = float(bar.attrib["x"])
                    self.assertAlmostEqual(at(begin), 0, delta=within)
                    self.assertAlmostEqual(at(begin + float(bar.attrib["width"])), value, delta=within)
                    self.assertEqual(bar.attrib["class"], "zeroth" if system.startswith("zeroth") else "peer")
                    seen += 1
            if "tokens" in caption:
                ranges = {tuple(round(at(float(line.attrib[x]))) for x in ("x1", "x2"))
                          for line in panel.iter(f"{SVG}line") if line.attrib["class"] == "range"}
                for told in (s for (where, _), s in summary.items() if where == setting):
                    low, high = told["tokens_per_s_range"]
                    self.assertTrue(any(abs(low - a) <= 1 + within and abs(high - b) <= 1 + within for a, b in ranges))
        return seen

    def test_missing_runs_are_named(self):
        panels = self.panels("peers_amd_fp32.svg")
        gone = [text for text in panels["L2, 4 ranks, tokens per second"].iter(f"{SVG}text")
                if "did not run" in "".join(text.itertext())]
        self.assertEqual([hint(text) for text in gone],
                         ["L2, 4 ranks, DeepSpeed 3 lean: RuntimeError: gloo | broke & <b>"])
        stars = [hint(star) for star in self.drawn["peers_amd_fp32.svg"].iter(f"{SVG}tspan")]
        self.assertEqual(stars, ["L1, 2 ranks, DDP default: RuntimeError: gloo | broke & <b>"] * 2)

    def test_savings(self):
        panels = self.panels("savings.svg")
        self.assertEqual(list(panels), ["7.5B", "128B", "1T"])
        lines = sorted((float(line.attrib["y1"]) for line in panels["7.5B"].iter(f"{SVG}line")
                        if line.attrib["class"] == "grid" and line.attrib["y1"] == line.attrib["y2"]), reverse=True)
        words = sorted(marks(panels["7.5B"], "end", "y"))
        up = [(value, line) for (value, at), line in zip(words, lines) if 3 < at - line < 5]  # each beside its line
        self.assertEqual([value for value, _ in up], [10.0**power for power in range(8, 14)])
        steps = {round(a - b, 1) for (_, a), (_, b) in zip(up, up[1:])}
        self.assertLessEqual(max(steps) - min(steps), 0.11, "decades are equally far apart")
        plans = {(line["model"]["parameters"], line["ranks"]): line["stages"] for line in sample_measurements.savings()}
        for parameters, panel in zip((7_500_000_000, 128_000_000_000, 1_000_000_000_000), panels.values()):
            across = sorted(marks(panel, "middle", "x"))
            self.assertEqual([value for value, _ in across], [1, 4, 16, 64, 256, 1024])
            x_of, y_of = self.log(across), self.log(up)
            curves = {hint(curve).split(":")[0].partition(", ")[2]: curve for curve in panel.iter(f"{SVG}polyline")}
            self.assertEqual(len(curves), 8)
            for stage in range(4):
                for words, keys in (("model states", ("parameters", "gradients", "optimizer")),
                                    ("all that is held", ("total",))):
                    points = [tuple(map(float, point.split(","))) for point in
                              curves[f"stage {stage}, {words}"].attrib["points"].split()]
                    self.assertEqual(len(points), 11)
                    for power, (x, y) in enumerate(points):
                        held = plans[parameters, 2**power][stage]
                        self.assertAlmostEqual(x, x_of(2**power), delta=0.03)
                        self.assertAlmostEqual(y, y_of(sum(held[key] for key in keys)), delta=0.03)
            rings = list(panel.iter(f"{SVG}circle"))
            self.assertEqual(len(rings), 18)
            for ring, (ranks, stage, printed) in zip(rings, zero_paper.points(parameters)):
                self.assertAlmostEqual(float(ring.attrib["cx"]), x_of(ranks), delta=0.03)
                self.assertAlmostEqual(float(ring.attrib["cy"]), y_of(float(printed) * 1e9), delta=0.03)
                self.assertEqual(ring.attrib["class"], f"printed stage{stage}")
            limit = [line for line in panel.iter(f"{SVG}line") if line.attrib["class"] == "limit"]
            self.assertEqual(len(limit), 1)
            self.assertAlmostEqual(float(limit[0].attrib["y1"]), y_of(80 * 2**30), delta=0.03)

    def log(self, found):
        (low, begin), (high, end) = found[0], found[-1]
        return lambda value: begin + math.log(value / low) / math.log(high / low) * (end - begin)

    def test_nothing_is_drawn_outside_of_the_picture(self):
        for picture, drawing in self.drawn.items():
            width, height = (float(v) for v in drawing.attrib["viewBox"].split()[2:])
            for element in drawing.iter():
                x, y = float(element.attrib.get("x", 0)), float(element.attrib.get("y", 0))
                if element.tag == f"{SVG}rect":
                    self.assertGreater(float(element.attrib["width"]), 0)
                    x += float(element.attrib["width"])
                    y += float(element.attrib["height"])
                elif element.tag == f"{SVG}text":  # letters are at most 7.8 wide
                    length = 7.8 * len(written(element))
                    if "rotate" in element.attrib.get("transform", ""):
                        length = 0
                    x += {"end": 0, "middle": length / 2}.get(element.attrib.get("text-anchor"), length)
                self.assertTrue(0 <= x <= width and 0 <= y <= height, f"{picture}: {hint(element) or element.text} at {x}, {y}")


class Sections(unittest.TestCase):
    def write(self, name, lines):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return pathlib.Path(folder.name)

    def test_a_model_that_is_not_in_the_paper_has_no_rings(self):
        models = savings.read(self.write("savings.jsonl", sample_measurements.savings((1_000_000,), (1, 2, 3))))
        self.assertEqual(savings.claims(models), [])
        drawing = savings.pictures(models)["savings.svg"]
        self.assertEqual(drawing.count("<circle"), 1)  # the legend's
        self.assertIn(">1M parameters<", drawing)

    def test_one_load_and_one_number_of_ranks(self):
        lines = sample_measurements.step_time(("L2",), (8,))
        drawing = step_time.pictures(step_time.read(self.write("step_time.jsonl", lines)))["step_time.svg"]
        self.assertEqual(drawing.count("<g "), 1)

    def test_log_axis(self):
        axis = axes.Log(0.5, 2000, 100, 400, 10, str)
        self.assertEqual(axis.marks, [1, 10, 100, 1000])
        self.assertAlmostEqual(axis.at(0.5), 100)
        self.assertAlmostEqual(axis.at(2000), 400)
        self.assertAlmostEqual(axis.at(math.sqrt(0.5 * 2000)), 250)
        self.assertEqual(axes.Log(1, 1024, 0, 1, 4, str).marks, [1, 4, 16, 64, 256, 1024])

    def test_printed_digits_agree_or_differ(self):
        for gigabytes, printed, agrees in ((31.40625, "31.4", True), (31.51, "31.4", False), (4187.5, "4187", True),
                                           (4188.01, "4187", False), (0.1171875, "0.12", True), (0.109, "0.12", False)):
            self.assertEqual(zero_paper.agrees(gigabytes, printed), agrees, (gigabytes, printed))
        self.assertEqual(sum(len(list(zero_paper.points(parameters))) for parameters in zero_paper.PRINTED), 54)


if __name__ == "__main__":
    unittest.main()
