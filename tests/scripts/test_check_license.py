# SPDX-License-Identifier: Apache-2.0
"""scripts/check_license.py: which files it reads, its message about a file without the line, and how it adds the line."""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import check_license  # noqa: E402

LINE = "SPDX-License-Identifier: Apache-2.0\n"


class Licence(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q", self.folder], check=True)
        patch = unittest.mock.patch.object(check_license, "REPOSITORY", self.folder)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, **files):
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "-C", self.folder, "add", "."], check=True)

    def run_check(self, *arguments):
        """(exit status, standard output, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = check_license.main(arguments)
        return status, out.getvalue(), err.getvalue()

    def test_files_that_name_it_are_counted_and_data_is_not(self):
        self.write(**{"a.cpp": "// " + LINE, "b.sh": "#!/bin/sh\n# " + LINE, "CMakeLists.txt": "# " + LINE,
                      "c.cmake.in": "# " + LINE, "data.json": "{}", "text.md": "words"})
        self.assertEqual(self.run_check(), (0, "== licence: 4 sources and scripts name it\n", ""))

    def test_each_file_without_it_is_named(self):
        self.write(**{"a.cpp": "int a;\n", "b.py": "pass\n", "good.hpp": "// " + LINE, "late.cu": "\n\n\n// " + LINE,
                      "other.cmake": "# SPDX-License-Identifier: MIT\n"})
        status, _, err = self.run_check()
        self.assertEqual(status, 1)
        self.assertEqual([line.split(": ")[1] for line in err.splitlines()], ["a.cpp", "b.py", "late.cu", "other.cmake"])
        self.assertIn("check_license.py --fix adds it", err)

    def test_files_that_git_ignores_are_not_read(self):
        self.write(**{".gitignore": "made.py\n"})
        (self.folder / "made.py").write_text("pass\n", encoding="utf-8")
        self.assertEqual(self.run_check()[0], 0)

    def test_fix_adds_the_line_after_the_interpreter_and_then_the_check_passes(self):
        self.write(**{"a.cpp": "int a;\n", "run": "#!/bin/sh\ntrue\n", "c.hpp.in": "int c;\n"})
        self.assertEqual(self.run_check("--fix")[0], 0)
        self.assertEqual((self.folder / "a.cpp").read_text(encoding="utf-8"), f"// {LINE}int a;\n")
        self.assertEqual((self.folder / "run").read_text(encoding="utf-8"), f"#!/bin/sh\n# {LINE}true\n")
        self.assertEqual((self.folder / "c.hpp.in").read_text(encoding="utf-8"), f"// {LINE}int c;\n")
        self.assertEqual(self.run_check(), (0, "== licence: 3 sources and scripts name it\n", ""))


if __name__ == "__main__":
    unittest.main()
