#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/torch.md says to write, in a fresh folder, against an installed package: it builds, and its loss falls.

    consume.py BUILD WORK TORCH_DIR CXX_FLAGS
"""

import pathlib
import re
import shutil
import sys

from running import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAGE_FILE = """{
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}
}
"""


def blocks(language):
    """Code of docs/torch.md in this language."""
    text = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def main(build, work, torch_dir, flags):
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run("cmake", "--install", build, "--prefix", work / "prefix", "--component", "devel")
    program, package = blocks("cpp")[0], blocks("cmake")[0]
    (work / "main.cpp").write_text("#include <cstdio>\n" + program, encoding="utf-8")
    find, link = package.splitlines()
    (work / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(Mine LANGUAGES CXX)\n{find}\nadd_executable(your_program main.cpp)\n{link}\n",
        encoding="utf-8")
    (work / "zero3.json").write_text(STAGE_FILE, encoding="utf-8")
    prefixes = f"{work / 'prefix'};{pathlib.Path(torch_dir).parent}"
    run("cmake", "-S", work, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={prefixes}", f"-DCMAKE_CXX_FLAGS={flags} -O0")
    run("cmake", "--build", work / "build")
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", run(work / "build" / "your_program", work / "zero3.json"))]
    if len(losses) != 99 or not losses[-1] < 0.5 * losses[0]:
        sys.exit(f"the losses of docs/torch.md's program: {losses}")


if __name__ == "__main__":
    main(*sys.argv[1:])
