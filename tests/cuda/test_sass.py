# SPDX-License-Identifier: Apache-2.0
"""Checks the kernels of the preset cuda: nothing spills in a loop, the page has their current figures, and the
library's PTX rounds like the CPU. ZEROTH_BUILD is the build's folder. Exit status: 77 if cuobjdump or nvdisasm is
missing."""

import os
import pathlib
import re
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
from lib import cuda_tools, kernel_facts  # noqa: E402

BUILD = os.environ.get("ZEROTH_BUILD", str(REPOSITORY / "build/cuda"))


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tools = cuda_tools.find()
        cls.parts = kernel_facts.read_kernels(cls.tools, BUILD)

    def test_no_kernel_spills_in_a_loop(self):
        self.assertGreater(len(self.parts["library"]), 50)
        self.assertGreater(len(self.parts["train_gpt"]), 80)
        for kernels in self.parts.values():
            for kernel in kernels:
                self.assertEqual(kernel.in_loops, [], f"{kernel.name} for sm_{kernel.architecture} reads or writes "
                                                      "local memory in a loop at these addresses")

    def test_the_page_describes_these_kernels(self):
        compiler = kernel_facts.compiler_of(BUILD)
        page = (REPOSITORY / "docs/measured/kernels.md").read_text(encoding="utf-8")
        named = re.search(r"^What (nvcc \S+) makes", page, re.MULTILINE).group(1)
        if named != compiler:
            self.skipTest(f"the page is of {named}, and this build of {compiler}")
        made = kernel_facts.page_of(self.parts, compiler)
        architectures = re.findall(r"sm_\d+", page.split("## ")[1].split("\n")[2])
        if re.findall(r"sm_\d+", made.split("## ")[1].split("\n")[2]) != architectures:
            self.skipTest(f"the page is of {architectures}, and this build is not")
        self.assertMultiLineEqual(page, made, "scripts/kernel_table.py --write makes it again")

    def test_float_operations_of_the_library_round_to_nearest(self):
        found = kernel_facts.read_roundings(self.tools, BUILD)
        self.assertTrue(found)
        for architecture, (count, unrounded) in found.items():
            self.assertGreater(count, 1000, f"sm_{architecture}")
            self.assertEqual(unrounded, {}, f"sm_{architecture}: contracted, approximate, or ptxas may contract it")


if __name__ == "__main__":
    try:
        cuda_tools.find()
    except cuda_tools.NoTools as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(verbosity=2)  # reports skipped parts, with the reason
