# SPDX-License-Identifier: Apache-2.0
"""scripts/access_table.py with a ctest that is written here."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import access_table  # noqa: E402

CTEST = """#!/bin/sh
test=${4#^}
test=${test%$}
printf 'Sums<float>\\t1.25\\t0.00\\n' >"$ZEROTH_PTX_WRITE_ACCESSES"
case $test in *sm100) printf 'Adds<fp16, float>\\t0.00\\t2.00\\n' >>"$ZEROTH_PTX_WRITE_ACCESSES" ;; esac
exit "$FAKE_STATUS"
"""


class Page(unittest.TestCase):
    def run_with(self, status):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "ctest"
            program.write_text(CTEST, encoding="utf-8")
            program.chmod(0o755)
            path = f"{folder}:{os.environ['PATH']}"
            out, err = io.StringIO(), io.StringIO()
            with mock.patch.dict(os.environ, {"PATH": path, "FAKE_STATUS": status}), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = access_table.main(["--build", folder])
            return status, out.getvalue(), err.getvalue()

    def test_a_row_for_each_kernel_and_two_columns_for_each_architecture(self):
        status, page, _ = self.run_with("0")
        self.assertEqual(status, 0)
        self.assertIn("| kernel | sm_80 banks | sm_80 sectors | sm_100 banks | sm_100 sectors |", page)
        self.assertIn("## train_gpt\n\n| kernel", page)
        self.assertEqual(page.count("| `Adds<fp16, float>` |  |  |  | 2.00 |\n| `Sums<float>` | 1.25 |  | 1.25 |  |"), 2)

    def test_a_test_that_fails_is_an_error(self):
        status, page, error = self.run_with("8")
        self.assertEqual((status, page), (2, ""))
        self.assertIn("build test_ptx_kernels and test_ptx_train_gpt_kernels first", error)


if __name__ == "__main__":
    unittest.main()
