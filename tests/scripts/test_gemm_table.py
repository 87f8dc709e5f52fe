# SPDX-License-Identifier: Apache-2.0
"""scripts/gemm_table.py without NVIDIA's package: the products of a block, the use of estimates, and refused arguments."""

import builtins
import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gemm_table  # noqa: E402


def at(rate):
    """An estimator of a GPU with the same speed for all products."""
    return lambda m, n, k, _: gemm_table.operations(m, n, k) / rate


class Products(unittest.TestCase):
    def test_a_block_has_twelve_which_are_72_operations_per_token_and_square_of_channels(self):
        products = [product[1:4] for product in gemm_table.products_of(64, 10)]
        self.assertEqual(len(products), 12)
        self.assertEqual(sum(gemm_table.operations(*product) for product in products), 72 * 10 * 64**2)
        self.assertEqual(dict([(name, product) for name, *product in gemm_table.products_of(64, 10)][3:6]), {
            "c_proj": [10, 64, 64, "NN_ROW_MAJOR"], "c_proj, by its input": [10, 64, 64, "NT_ROW_MAJOR"],
            "c_proj, by its matrix": [64, 64, 10, "TN_ROW_MAJOR"]})

    def test_a_block_is_its_operations_over_its_time(self):
        self.assertAlmostEqual(gemm_table.of_block(64, 10, at(3e12), 4e12), 0.75)
        # All take the same time: 12 seconds in total, instead of 72 * 10 * 64^2 seconds at a peak of one operation per
        # second.
        self.assertAlmostEqual(gemm_table.of_block(64, 10, lambda *_: 1, 1), 6 * 10 * 64**2)


class Tables(unittest.TestCase):
    def test_an_estimate_is_scaled_by_what_was_measured(self):
        text = "\n".join(gemm_table.blocks({"H100_SXM": at(0.8 * 989e12), "A100_SXM_80GB": at(0.4 * 312e12)}))
        self.assertIn("| 1,600 | 16,384 | 0.80 | 0.40 |\n", text)
        self.assertIn("Measured on 8xH100: 0.68 with 1,600 channels and 16,384 tokens, 0.85 of the estimate.", text)
        self.assertIn("| 8xH100 | 0.68 | 0.68 |\n| 8xA100 | 0.34 | 0.73 |\n", text)
        self.assertNotIn("Measured", "\n".join(gemm_table.blocks({"A100_SXM_80GB": at(1e12)})))

    def test_products_have_a_rate_and_its_part_of_the_peak(self):
        text = "\n".join(gemm_table.products({"H100_SXM": at(0.5 * 989e12)}, 64))
        self.assertIn("| c_attn | 2048 x 192 x 64 | 494 (0.50) |\n", text)
        self.assertIn("| mlp.c_proj, by its matrix | 256 x 64 x 16384 | 494 (0.50) |\n", text)


class Refused(unittest.TestCase):
    def test_wrong_arguments(self):
        for words, told in ((["--gpus", "B100"], "'B100'"), (["--products", "0"], "--products 0: channels must be at least 1")):
            err = io.StringIO()
            with self.subTest(words=words), contextlib.redirect_stderr(err), self.assertRaises(SystemExit) as end:
                gemm_table.main(words)
            self.assertEqual(end.exception.code, 2)
            self.assertIn(told, err.getvalue())

    def test_a_missing_package(self):
        found = builtins.__import__

        def without(name, *rest):
            if name == "nvMatmulHeuristics":
                raise ImportError("no such module")
            return found(name, *rest)

        err = io.StringIO()
        with mock.patch("builtins.__import__", without), contextlib.redirect_stderr(err):
            self.assertEqual(gemm_table.main([]), 2)
        self.assertIn("gemm_table.py: no nvidia-matmul-heuristics: no such module; pip install", err.getvalue())


if __name__ == "__main__":
    unittest.main()
