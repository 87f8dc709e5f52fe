#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The drawing of the layers of this repository, and of small ones."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts/draw_layers.py"


def run(root, *arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, "--root", root, *arguments], capture_output=True, text=True,
                          check=False)


class Small(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("tests/headers/layers.cmake", "set(layer_of_zeroth/comm/job.hpp comm_launch)\n")
        self.write("docs/design.md", "before\n<!-- layers: begin -->\nold\n<!-- layers: end -->\nbehind\n")
        self.write("include/zeroth/core/a.hpp")
        self.write("include/zeroth/comm/job.hpp", '#include "zeroth/comm/communicator.hpp"\n')
        self.write("include/zeroth/comm/communicator.hpp", '#include "zeroth/core/a.hpp"\n')
        self.write("src/comm/store/store.cpp", '#include <vector>\n#include "comm/describe.hpp"\n')
        self.write("src/engine/engine.cpp", '#include "zeroth/comm/job.hpp"\n#include "zeroth/core/a.hpp"\n')

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def page(self):
        return (self.root / "docs/design.md").read_text()

    def test_draws(self):
        self.assertEqual(run(self.root, "--check").returncode, 1)
        self.assertEqual(run(self.root).returncode, 0)
        page = self.page()
        self.assertTrue(page.startswith("before\n") and page.endswith("<!-- layers: end -->\nbehind\n"))
        layers, folders = page.split("Inside comm")
        self.assertIn("  engine[engine] --> comm[comm]\n", layers)
        self.assertIn("  comm[comm] --> core[core]\n", layers)
        self.assertNotIn("engine[engine] --> core", layers)  # comm leads there
        self.assertIn("  comm_launch[comm/launch] --> comm[kernel]\n", folders)
        self.assertIn("  comm_store[comm/store] --> comm[kernel]\n", folders)
        self.assertEqual(run(self.root, "--check").returncode, 0)

    def test_sees_a_new_arrow(self):
        run(self.root)
        self.write("src/comm/store/store.cpp", '#include "comm/launch/environment.hpp"\n')
        checked = run(self.root, "--check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("run scripts/draw_layers.py", checked.stderr)

    def test_cycles_are_refused(self):
        self.write("src/core/up.cpp", '#include "zeroth/engine/engine.hpp"\n')
        drawn = run(self.root)
        self.assertEqual(drawn.returncode, 1)
        self.assertIn("comm includes itself through core, engine", drawn.stderr)
        self.assertIn("old", self.page())


class Repository(unittest.TestCase):
    def test_matches_its_drawing(self):
        checked = run(REPOSITORY, "--check")
        self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    unittest.main()
