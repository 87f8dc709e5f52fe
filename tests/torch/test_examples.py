#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_gpt trains like train_gpt, up to rounding, and each reads the other's checkpoints; torch_gan learns a circle;
torch_vision classifies digits, if scikit-learn's are installed with libtorch.

    test_examples.py FOLDER_OF_PROGRAMS TORCH_DIR
"""

import gzip
import json
import pathlib
import re
import sys
import tempfile

from running import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = ["--layers", "2", "--heads", "2", "--channels", "32", "--context", "32"]
STEPS = 8


def losses_of(output):
    return [float(loss) for loss in re.findall(r"^step +\d+(?:/\d+)? +loss +([0-9.]+)", output, re.MULTILINE)]


def expect_near(what, ours, theirs, bound):
    if len(ours) != STEPS or len(theirs) != STEPS or any(abs(a - b) > bound for a, b in zip(ours, theirs, strict=True)):
        sys.exit(f"{what}: {ours}, and {theirs}")


def common_options(folder, optimizer):
    config = folder / f"{optimizer}.json"
    config.write_text(json.dumps({
        "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "zero_optimization": {"stage": 3},
        "optimizer": {"type": optimizer, "params": {"lr": 1e-3, "weight_decay": 0.1}}}), encoding="utf-8")
    return ["--data", ROOT / "docs" / "design.md", "--config", config, "--ranks", "2", "--steps", STEPS]


def check_gpt(programs, folder):
    common = common_options(folder, "AdamW")
    theirs = run(programs / "train_gpt", *common, *SHAPE, "--save-final", folder / "theirs")
    ours = run(programs / "torch_gpt", *common, *SHAPE, "--save-final", folder / "ours")
    expect_near("losses of torch_gpt, and of train_gpt", losses_of(ours), losses_of(theirs), 2e-4)
    again = run(programs / "torch_gpt", *common, *SHAPE, "--recompute")
    if losses_of(again) != losses_of(ours):
        sys.exit(f"run again in backward, torch_gpt prints {losses_of(again)}, and {losses_of(ours)} without")
    ours = run(programs / "torch_gpt", *common, "--init", folder / "theirs")
    theirs = run(programs / "train_gpt", *common, "--init", folder / "theirs")
    expect_near("losses from train_gpt's weights", losses_of(ours), losses_of(theirs), 2e-4)
    theirs = run(programs / "train_gpt", *common, "--init", folder / "ours")
    ours = run(programs / "torch_gpt", *common, "--init", folder / "ours")
    expect_near("losses from torch_gpt's weights", losses_of(ours), losses_of(theirs), 2e-4)


def check_muon(programs, folder):
    common = common_options(folder, "Muon")
    ours, theirs = (losses_of(run(programs / name, *common, *SHAPE)) for name in ("torch_gpt", "train_gpt"))
    expect_near("losses of torch_gpt with Muon, and of train_gpt", ours, theirs, 2e-4)


def check_gan(programs, folder):
    said = []
    for stage in (0, 3):
        config = folder / f"gan{stage}.json"
        config.write_text(json.dumps({
            "train_micro_batch_size_per_gpu": 32, "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-3, "betas": [0.5, 0.99]}}}), encoding="utf-8")
        said.append(run(programs / "torch_gan", config))
    distance = float(re.search(r"points are ([0-9.]+) from the circle", said[0])[1])
    if said[0] != said[1] or len(said[0].splitlines()) != 4 or distance > 0.15:
        sys.exit(f"torch_gan says at stages 0 and 3\n{said[0]}{said[1]}")


def check_vision(programs, folder, torch_dir):
    packed = pathlib.Path(torch_dir).parents[3] / "sklearn" / "datasets" / "data" / "digits.csv.gz"
    if not packed.exists():
        print(f"no {packed}: torch_vision is not run")
        return
    digits = folder / "digits.csv"
    digits.write_bytes(gzip.decompress(packed.read_bytes()))
    said = run(programs / "torch_vision", digits, ROOT / "configs" / "zero3.json")
    accuracy = float(re.search(r"accuracy ([0-9.]+)", said)[1])
    if accuracy < 0.9:
        sys.exit(f"torch_vision tells {accuracy} of the digits apart:\n{said}")


def main(programs, torch_dir):
    with tempfile.TemporaryDirectory() as folder:
        check_gpt(pathlib.Path(programs), pathlib.Path(folder))
        check_muon(pathlib.Path(programs), pathlib.Path(folder))
        check_gan(pathlib.Path(programs), pathlib.Path(folder))
        check_vision(pathlib.Path(programs), pathlib.Path(folder), torch_dir)


if __name__ == "__main__":
    main(*sys.argv[1:])
