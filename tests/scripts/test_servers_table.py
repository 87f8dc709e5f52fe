# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/parameter_server.md have the tool's current results."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts/compare_servers.py"


def compare(*words):
    return subprocess.run([sys.executable, "-B", SCRIPT, "--zeroth", *words], capture_output=True, text=True, check=False)


class ServersTable(unittest.TestCase):
    @unittest.skipUnless("ZEROTH_TOOL" in os.environ, "ZEROTH_TOOL is set where the tool is built")
    def test_the_document_has_the_output_of_the_script(self):
        ended = compare(os.environ["ZEROTH_TOOL"])
        self.assertEqual(ended.returncode, 0, ended.stderr)
        document = (REPOSITORY / "docs/parameter_server.md").read_text(encoding="utf-8")
        self.assertIn(f"<!-- servers: begin -->\n{ended.stdout}<!-- servers: end -->", document)

    def test_a_tool_that_fails_is_reported_and_the_document_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            document = pathlib.Path(folder) / "page.md"
            text = "before\n<!-- servers: begin -->\nold\n<!-- servers: end -->\n"
            document.write_text(text, encoding="utf-8")
            ended = compare("/bin/false", "--document", document)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("compare_servers.py: /bin/false simulate: ", ended.stderr)
            self.assertEqual(document.read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    unittest.main()
