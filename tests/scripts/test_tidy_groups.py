# SPDX-License-Identifier: Apache-2.0
"""scripts/tidy.py: which sources are checked together, with which command."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from lib import tidy_groups  # noqa: E402

COMMAND = ("/usr/bin/cmake -E env CCACHE_SLOPPINESS=pch_defines ccache /usr/bin/c++ -DONE -I{root}/include -O2 -fno-loop-unroll-and-jam "
           "-fpch-preprocess -std=gnu++20 -Winvalid-pch -include {root}/build/cmake_pch.hxx {more} -MD -MT a.o -MF a.o.d -o a.o -c {file}")


class Groups(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.entries = []

    def source(self, name, text="int x;\n", more=""):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.entries.append({"directory": str(self.root), "file": str(path),
                             "command": COMMAND.format(root=self.root, file=path, more=more)})
        return str(path)

    def grouped(self, sources):
        return tidy_groups.make(sources, tidy_groups.commands_of(self.entries), self.root)

    def test_a_command_omits_its_source_launchers_outputs_and_options_of_gcc(self):
        source = self.source("a/one.cpp")
        _, words = tidy_groups.commands_of(self.entries)[source]
        self.assertEqual(words, ["/usr/bin/c++", "-DONE", f"-I{self.root}/include", "-O2", "-std=gnu++20"])

    def test_sources_of_one_command_are_together(self):
        together = [self.source("a/one.cpp"), self.source("a/two.cpp", '#include "a/two.hpp"\n'), self.source("b/one.cpp")]
        with_more = self.source("a/three.cpp", more="-mavx2")
        groups = self.grouped([*together, with_more])
        self.assertEqual([group.sources for group in groups], [together, [with_more]])
        self.assertNotIn("-iquote", groups[0].command)

    def test_sources_that_include_from_their_own_folder_form_a_group_per_folder(self):
        beside = '#include <vector>\n#include "part.hpp"\n'
        of_a = [self.source("a/one.cpp", beside), self.source("a/two.cpp", beside)]
        of_b, of_none = self.source("b/one.cpp", beside), self.source("a/three.cpp")
        groups = self.grouped([*of_a, of_b, of_none])
        self.assertEqual([group.sources for group in groups], [of_a, [of_b], [of_none]])
        self.assertEqual([group.command[-2:] for group in groups[:2]],
                         [["-iquote", str(self.root / "a")], ["-iquote", str(self.root / "b")]])

    def test_a_program_is_alone(self):
        part, program = self.source("a/part.cpp"), self.source("a/program.cpp", "int main() {}\n")
        self.assertEqual([group.sources for group in self.grouped([part, program])], [[part], [program]])

    def test_groups_keep_to_their_limit_and_lose_no_source(self):
        sources = [self.source(f"a/{number}.cpp") for number in range(2 * tidy_groups.MOST + 1)]
        groups = self.grouped(sources)
        self.assertEqual([len(group.sources) for group in groups], [tidy_groups.MOST, tidy_groups.MOST, 1])
        self.assertEqual(sum((group.sources for group in groups), []), sources)
        self.assertEqual(len({group.file for group in groups}), 3)

    def test_the_text_has_all_of_every_source(self):
        sources = [self.source("a/one.cpp", "int one;"), self.source("a/two.cpp", "int two;")]
        text = tidy_groups.text_of(sources)
        self.assertEqual(text, f'#line 1 "{sources[0]}"\nint one;\n#line 1 "{sources[1]}"\nint two;\n')

    def test_a_duplicate_include_is_named(self):
        self.assertEqual(tidy_groups.included_twice('#include <a>\n#include "b"\n#include <a>\n'), ["<a>"])
        self.assertEqual(tidy_groups.included_twice('#include <a>\n#include "a"\n// #include <a>\n'), [])


if __name__ == "__main__":
    unittest.main()
