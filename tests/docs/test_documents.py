# SPDX-License-Identifier: Apache-2.0
"""README and docs agree with the files that they name."""

import pathlib
import re
import subprocess
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [*(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
                                               "bench/README.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


class Documents(unittest.TestCase):
    def test_the_readme_keeps_to_its_length(self):
        self.assertLessEqual(len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()), 150)

    def test_readme_quotes_the_example(self):
        source = (REPOSITORY / "examples/wrap_a_model/main.cpp").read_text(encoding="utf-8")
        region = re.search(r"^// ---- the README quotes from here ----\n(.*)^// ---- to here ----$", source,
                           re.DOTALL | re.MULTILINE)
        self.assertIsNotNone(region, "the example has lost its marks")
        quoted = blocks((REPOSITORY / "README.md").read_text(encoding="utf-8"), "cpp")
        self.assertEqual(quoted, [region.group(1)], "README.md must quote the marked lines of the example")

    def test_links_have_targets(self):
        checked = 0
        for document in DOCUMENTS:
            prose = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
            for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", prose):
                if "://" not in target:
                    checked += 1
                    self.assertTrue((document.parent / target).exists(), f"{document.name} links to {target}")
        self.assertGreater(checked, 15)

    def test_every_document_can_be_reached_from_the_readme_or_from_the_index(self):
        reached = set()
        for page in (REPOSITORY / "README.md", REPOSITORY / "docs/README.md"):
            for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8")):
                path = page.parent / target
                reached.add((path / "README.md" if path.is_dir() else path).resolve())
        for document in DOCUMENTS[1:]:
            self.assertIn(document.resolve(), reached, f"neither README.md nor docs/README.md links to {document}")

    def test_paths_in_backticks_exist(self):
        """`folder/...` with a top-level folder of ours must exist; <...> and build products are left out."""
        folders = "include|src|optim|tools|examples|configs|tests|bench|scripts|docs|cmake"
        checked = 0
        for document in DOCUMENTS:
            for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", document.read_text(encoding="utf-8")):
                checked += 1
                self.assertTrue((REPOSITORY / path).exists(), f"{document.name} speaks of {path}")
        self.assertGreater(checked, 5)

    def test_the_walk_of_a_step_names_at_most_thirty_files(self):
        """docs/reading.md names functions of its files only."""
        text = (REPOSITORY / "docs/reading.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `([\w./]+)` \| (.*) \|$", text, re.MULTILINE)
        self.assertGreater(len(rows), 20)
        self.assertLessEqual(len(rows), 30)
        self.assertIn(f"\n{len(rows)} files,", text)
        for path, look_at in rows:
            for function in re.findall(r"`(\w+)\(\)`", look_at):
                self.assertIn(f"{function}(", (REPOSITORY / path).read_text(encoding="utf-8"), path)

    def test_folders_of_sources_say_where_to_start(self):
        sources = [path for folder in ("src", "tests/support", "tools") for path in (REPOSITORY / folder).rglob("*.cpp")]
        for folder in {path.parent for path in sources}:
            page = folder / "README.md"
            self.assertTrue(page.exists(), f"{folder} has no README.md")
            text = page.read_text(encoding="utf-8")
            self.assertLessEqual(len(text.splitlines()), 15, folder)
            for name in re.findall(r"`(\w+\.[ch]pp)`", text):
                self.assertTrue((folder / name).exists(), f"{page} names {name}")

    def test_scripts_are_executable_and_parse(self):
        scripts = [*sorted((REPOSITORY / "scripts").glob("*.sh")), REPOSITORY / ".ci/run"]
        self.assertGreaterEqual(len(scripts), 3)
        for script in scripts:
            self.assertTrue(script.stat().st_mode & 0o100, f"{script.name} is not executable")
            subprocess.run(["bash", "-n", str(script)], check=True)


if __name__ == "__main__":
    unittest.main()
