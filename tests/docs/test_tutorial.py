# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: its code is the programs', and every command prints what the page shows.

TUTORIAL_BIN is the folder of the programs, and TUTORIAL_MPIRUN the command that starts processes (words separated by
blanks)."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/tutorial.md").read_text(encoding="utf-8")
FENCED = re.compile(r"(?:<!-- (?P<file>\S+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^    (?P<command>\S[^\n]*)\n\n```\n(?P<output>.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d+\.\d+")


def without_numbers(text):
    return NUMBER.sub("#", text)


class Tutorial(unittest.TestCase):
    def test_code_is_that_of_the_files_it_names(self):
        checked = 0
        for block in FENCED.finditer(PAGE):
            if not block["language"]:
                continue  # output
            self.assertIsNotNone(block["file"], f"which file is this of?\n{block['text']}")
            source = (REPOSITORY / block["file"]).read_text(encoding="utf-8")
            self.assertIn("\n" + block["text"], "\n" + source, f"not in {block['file']}")
            checked += 1
        self.assertGreaterEqual(checked, 10)

    def test_the_files_of_the_stages_differ_only_in_the_stage(self):
        zero, three = ((REPOSITORY / f"examples/tutorial/stage{stage}.json").read_text("utf-8") for stage in (0, 3))
        self.assertEqual(zero.replace('"stage": 0', '"stage": 3'), three)

    @unittest.skipUnless("TUTORIAL_BIN" in os.environ, "TUTORIAL_BIN is set where examples are built")
    def test_commands_print_what_is_shown(self):
        """Compares words exactly, and losses within 1e-4, since processors multiply with different instructions."""
        shown = list(SHOWN.finditer(PAGE))
        self.assertEqual(len(shown), 5)
        for step in shown:
            with self.subTest(step["command"]):
                printed = self.run_command(step["command"])
                self.assertEqual(without_numbers(printed), without_numbers(step["output"]))
                for number, wanted in zip(NUMBER.findall(printed), NUMBER.findall(step["output"])):
                    self.assertAlmostEqual(float(number), float(wanted), delta=1e-4)

    @unittest.skipUnless("TUTORIAL_BIN" in os.environ, "TUTORIAL_BIN is set where examples are built")
    def test_four_ranks_print_the_same_losses_at_both_stages(self):
        printed = [self.run_command(f"build/dev/bin/tutorial_sharded examples/tutorial/stage{stage}.json 4").split("\n", 1)[1]
                   for stage in (0, 3)]
        self.assertEqual(*printed)

    def run_command(self, command):
        words = []
        for word in shlex.split(command):
            if word == "mpirun":
                if not os.environ.get("TUTORIAL_MPIRUN"):
                    self.skipTest("no mpirun here")
                words += os.environ["TUTORIAL_MPIRUN"].split()
            elif word.startswith("build/dev/bin/"):
                words.append(str(pathlib.Path(os.environ["TUTORIAL_BIN"]) / pathlib.Path(word).name))
            else:
                words.append(word)
        ended = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout


if __name__ == "__main__":
    unittest.main()
