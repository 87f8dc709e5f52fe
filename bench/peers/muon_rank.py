# SPDX-License-Identifier: Apache-2.0
"""One rank of owners.py's updates of L1's matrices over gloo, started by muon.py. Writes PREFIX.<rank>.json: milliseconds of
each update after its gradients are reduced."""

import argparse
import json
import os
import pathlib
import time

import torch
from torch import distributed as dist

import owners
from loads import LOADS, MUON


def shapes(load):
    """Shapes of Linear's weights: [out, in]."""
    n = load.channels
    return [(3 * n, n), (n, n), (4 * n, n), (n, 4 * n)] * load.layers


def update_ms(load, updates):
    torch.manual_seed(1)
    matrices = [torch.randn(shape) * 0.02 for shape in shapes(load)]
    muon = owners.OwnersMuon(matrices, **MUON)
    gradients = [torch.randn_like(part) for part in muon.slices]
    spent = []
    for _ in range(updates):
        dist.barrier()
        before = time.perf_counter()
        muon.step(gradients)
        spent.append(1e3 * (time.perf_counter() - before))
    return spent


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    spent = update_ms(LOADS["L1"], options.updates)
    dist.barrier()
    dist.destroy_process_group()
    record = {"update_ms": spent, "torch": torch.__version__}
    pathlib.Path(f"{options.out}.{os.environ['RANK']}.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main()
