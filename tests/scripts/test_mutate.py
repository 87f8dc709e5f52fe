# SPDX-License-Identifier: Apache-2.0
"""scripts/mutate.py: its changes to a line, and the outcomes of mutants of a program of two lines."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import mutate  # noqa: E402
from lib import mutants, mutation  # noqa: E402


def after(line):
    return {(mutant.kind, mutant.after) for mutant in mutants.mutants_of("a.cpp", line)}


class Changes(unittest.TestCase):
    def test_operators_constants_arguments_and_statements(self):
        self.assertEqual(after("  return a + 10;"), {("operator", "  return a - 10;"), ("constant", "  return a + 11;"),
                                                    ("constant", "  return a + 9;")})
        self.assertEqual(after("  if (a < b && c) {"), {("operator", "  if (a <= b && c) {"),
                                                       ("operator", "  if (a < b || c) {")})
        self.assertEqual(after("  send(from, to);"), {("arguments", "  send(to, from);"), ("dropped", "  ;")})
        self.assertEqual(after("  x.count += y;"), {("operator", "  x.count -= y;"), ("dropped", "  ;")})
        self.assertEqual(after("  auto const z = std::max(p, q);"), {("operator", "  auto const z = std::min(p, q);"),
                                                                    ("arguments", "  auto const z = std::max(q, p);")})

    def test_text_that_is_not_code_is_unchanged(self):
        for line in ("// a + b", "#include <a>", "  static_assert(a == 1);", "  using T = A<1>;", '  log("a + b, 1");',
                     "  std::vector<int> x;", "  float f = 1.5F;  // 1 + 2", "  assert(n > 0);"):
            with self.subTest(line=line):
                self.assertEqual({kind for kind, _ in after(line)} - {"dropped"}, set())

    def test_a_seed_selects_the_mutants(self):
        all_of_them = mutants.mutants_of("a.cpp", "\n".join(f"  x = a + {n};" for n in range(50)))
        self.assertEqual(mutants.chosen(all_of_them, 3, 10), mutants.chosen(all_of_them, 3, 10))
        self.assertNotEqual(mutants.chosen(all_of_them, 3, 10), mutants.chosen(all_of_them, 4, 10))
        self.assertEqual(len(mutants.chosen(all_of_them, 3, 10_000)), len(all_of_them))

    def test_the_tests_of_every_source_exist(self):
        listed = "".join(path.read_text("utf-8") for path in (REPOSITORY / "tests").glob("*/CMakeLists.txt"))
        for mutant in mutate.all_mutants(None):
            for test in mutation.tests_of(mutant.path):
                self.assertIn(f"zeroth_test({test} ", listed)


class Runs(unittest.TestCase):
    SOURCE = "int twice(int a) {\n  int unused = 0;\n  (void)unused;\n  return a + a;\n}\n"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        repository = self.folder / "repository"
        files = {
            "optim/twice.cpp": self.SOURCE,
            "main.cpp": "int twice(int a);\nint main(void) { return twice(2) == 4 ? 0 : 1; }\n",
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(small CXX)\n"
                              "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
                              "add_executable(test_twice main.cpp optim/twice.cpp)\n"}
        for name, text in files.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
        subprocess.run(["git", "add", "."], cwd=repository, check=True)
        for target, value in ((mutate, {"REPOSITORY": repository, "FOLDER": self.folder / "mutants",
                                        "RESULTS": self.folder / "mutants/results.jsonl"}),
                              (mutation, {"TESTS": {"optim/": ("twice",)}})):
            patch = unittest.mock.patch.multiple(target, **value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_with(self, *lines):
        """The outcomes of mutants of these lines: {line after: outcome}."""
        chosen = [mutants.Mutant("optim/twice.cpp", number, "operator", self.SOURCE.split("\n")[number - 1], line)
                  for number, line in lines]
        with unittest.mock.patch.object(mutants, "chosen", return_value=chosen), \
                unittest.mock.patch.object(mutate, "all_mutants"), contextlib.redirect_stdout(io.StringIO()) as out:
            status = mutate.main(["--jobs", "1"])
        lines = mutate.RESULTS.read_text("utf-8").splitlines() if mutate.RESULTS.exists() else []
        records = [json.loads(line) for line in lines]
        return status, {record["mutant"]["after"]: record["outcome"] for record in records}, out.getvalue()

    def test_outcomes(self):
        status, outcomes, said = self.run_with((4, "  return a - a;"), (4, "  return a * a;"), (4, "  return a + b;"),
                                               (2, "  int unused = 1;"))
        self.assertEqual(status, 1)  # one survives: 2 * 2 is 2 + 2
        self.assertEqual(list(outcomes.values()), ["caught", "survived", "does not compile", "same object code"])
        self.assertIn("1 caught, 1 survived, 1 does not compile, 1 same object code", said)
        self.assertEqual([each.after for each in mutate.survivors(mutate.RESULTS)], ["  return a * a;"])
        self.assertEqual((self.folder / "mutants/tree/optim/twice.cpp").read_text("utf-8"), self.SOURCE)

    def test_a_tree_that_fails_without_a_mutant(self):
        (mutate.REPOSITORY / "main.cpp").write_text("int main(void) { return 1; }\n", encoding="utf-8")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(self.run_with((4, "  return a - a;"))[:2], (2, {}))
        self.assertIn("twice fails without any mutant", said.getvalue())


if __name__ == "__main__":
    unittest.main()
