#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables how near a GPU comes to its peak in the matrix products of a GPT's blocks, as NVIDIA's own model estimates.

    .venv/bin/pip install nvidia-matmul-heuristics==0.1.0.27
    .venv/bin/python scripts/gemm_table.py                      blocks of several sizes on the GPUs of the presets' machines
    .venv/bin/python scripts/gemm_table.py --products 1600      each product of a block of 1600 channels

Products are of bf16 with sums in fp32, each by the kernel with the shortest estimate. The estimate ignores power
limits. The measured efficiency of the products of GPT-2 1.5B on an H100 (docs/measured/gpu.json) is printed with it:
multiplied by the ratio of the two, an estimate is a guess at `math_efficiency` of a machine file. Needs no GPU.
"""

import argparse
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import markdown

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
# {the package's name of a GPU: the machine file that has it}
GPUS = {"H100_SXM": "8xH100", "H200_SXM": "8xH200", "A100_SXM_80GB": "8xA100"}
MEASURED_ON, MEASURED_CHANNELS, MEASURED_TOKENS = "H100_SXM", 1600, 16384
CHANNELS, TOKENS = (768, 1600, 2560, 4096, 5120, 8192), (2048, 4096, 16384)
# The matrices of a block, with their extents [in, out] in multiples of channels.
MATRICES = {"c_attn": (1, 3), "c_proj": (1, 1), "c_fc": (1, 4), "mlp.c_proj": (4, 1)}


class NoEstimates(Exception):
    """The package is missing, or does not estimate this product."""


def products_of(channels, tokens):
    """(name, m, n, k, layout) of every product of a block: y = x W, dx = dy W^T, dW = x^T dy, in row-major order."""
    for name, extents in MATRICES.items():
        inputs, outputs = (extent * channels for extent in extents)
        yield name, tokens, outputs, inputs, "NN_ROW_MAJOR"
        yield f"{name}, by its input", tokens, inputs, outputs, "NT_ROW_MAJOR"
        yield f"{name}, by its matrix", inputs, outputs, tokens, "TN_ROW_MAJOR"


def operations(m, n, k):
    return 2 * m * n * k


def of_block(channels, tokens, seconds, peak):
    """Operations per second over the peak, of all products of a block together. `seconds`: a function of (m, n, k,
    layout)."""
    products = [product[1:] for product in products_of(channels, tokens)]
    return sum(operations(*product[:3]) for product in products) / sum(seconds(*product) for product in products) / peak


def estimator(gpu):
    """A function seconds(m, n, k, layout): the time of the fastest kernel in the package."""
    try:
        import nvMatmulHeuristics as heuristics
    except (ImportError, OSError) as error:
        raise NoEstimates(f"no nvidia-matmul-heuristics: {error}; pip install nvidia-matmul-heuristics==0.1.0.27") from error
    interface = heuristics.NvMatmulHeuristicsInterfaceEx(backend=heuristics.NvMatmulHeuristicsTarget.GENERIC,
                                                         gpu=heuristics.NvMatmulHeuristicsNvidiaGpu[gpu])

    def seconds(m, n, k, layout):
        problem = interface.makeNvMatmulHeuristicsProblem(m, n, k, heuristics.NvMatmulHeuristicsMatmulLayout[layout])
        found = interface.get(problem, 8, precision="TST")  # T: bf16, S: fp32; of inputs, sums and result
        if not found:
            raise NoEstimates(f"nvidia-matmul-heuristics has no kernel for {m} x {n} x {k} on {gpu}")
        return min(each["runtime"] for each in found)

    return seconds


def machine(gpu):
    """The contents of the GPU's machine file."""
    text = (REPOSITORY / f"configs/machines/{GPUS[gpu]}.json").read_text(encoding="utf-8")
    return json.loads(re.sub("//.*", "", text))


def measured():
    """The share of the peak that the products of GPT-2 1.5B reached."""
    layers = json.loads((REPOSITORY / "docs/measured/gpu.json").read_text(encoding="utf-8"))["layers"]
    mine = [each for each in layers if re.match(r"(mlp\.)?c_(attn|proj|fc)\b", each["what"])]
    us = sum(each["us_of_all"] for each in mine)
    return sum(each["us_of_all"] * each["tflop_per_s"] for each in mine) * 1e12 / us / machine(MEASURED_ON)["peak_flops_per_s"]


def blocks(estimators):
    """A table of all blocks on each GPU, then one of the guesses at `math_efficiency`."""
    peaks = {gpu: machine(gpu)["peak_flops_per_s"] for gpu in estimators}
    rows = [[f"{channels:,}", f"{tokens:,}", *(f"{of_block(channels, tokens, estimators[gpu], peaks[gpu]):.2f}" for gpu in estimators)]
            for channels in CHANNELS for tokens in TOKENS]
    yield markdown.table(["channels", "tokens", *(GPUS[gpu] for gpu in estimators)], rows)
    if MEASURED_ON in estimators:
        estimates = {gpu: of_block(MEASURED_CHANNELS, MEASURED_TOKENS, seconds, peaks[gpu]) for gpu, seconds in estimators.items()}
        factor = measured() / estimates[MEASURED_ON]
        yield (f"Measured on {GPUS[MEASURED_ON]}: {measured():.2f} with {MEASURED_CHANNELS:,} channels and {MEASURED_TOKENS:,} tokens, "
               f"{factor:.2f} of the estimate. By this factor:\n")
        rows = [[GPUS[gpu], f"{factor * estimate:.2f}", f"{machine(gpu)['math_efficiency']:.2f}"] for gpu, estimate in estimates.items()]
        yield markdown.table(["", "estimate x factor", "`math_efficiency` of the machine file"], rows)


def products(estimators, channels):
    for tokens in TOKENS:
        rows = []
        for name, *product in products_of(channels, tokens):
            m, n, k, _ = product
            rows.append([name, f"{m} x {n} x {k}"])
            for gpu, seconds in estimators.items():
                rate = operations(m, n, k) / seconds(*product)
                rows[-1].append(f"{rate / 1e12:.0f} ({rate / machine(gpu)['peak_flops_per_s']:.2f})")
        header = [f"{tokens:,} tokens", "m x n x k", *(f"{GPUS[gpu]}, TFLOP/s (of the peak)" for gpu in estimators)]
        yield markdown.table(header, rows)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", nargs="+", choices=GPUS, default=list(GPUS), metavar="GPU", help=f"of {', '.join(GPUS)} [all]")
    parser.add_argument("--products", type=int, metavar="CHANNELS", help="each product of a block with so many channels")
    options = parser.parse_args(words)
    if options.products is not None and options.products < 1:
        parser.error(f"--products {options.products}: channels must be at least 1")
    try:
        estimators = {gpu: estimator(gpu) for gpu in options.gpus}
        parts = products(estimators, options.products) if options.products else blocks(estimators)
        for part in parts:
            print(part)
    except NoEstimates as error:
        print(f"gemm_table.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
