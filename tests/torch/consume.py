#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the code of docs/torch.md in a fresh folder, against an installed package: its loss falls, and its complete
program resumes from a checkpoint.

    consume.py BUILD WORK TORCH_DIR CXX_FLAGS
"""

import pathlib
import re
import shutil
import sys

from running import run

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(language):
    """The code of docs/torch.md in this language."""
    text = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def main(build, work, torch_dir, flags):
    work = pathlib.Path(work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run("cmake", "--install", build, "--prefix", work / "prefix", "--component", "devel")
    (work / "CMakeLists.txt").write_text(blocks("cmake")[0], encoding="utf-8")
    (work / "zero3.json").write_text(blocks("jsonc")[0], encoding="utf-8")
    for program, check in zip(blocks("cpp"), (check_first, check_whole), strict=True):
        (work / "main.cpp").write_text(program, encoding="utf-8")
        prefixes = f"{work / 'prefix'};{pathlib.Path(torch_dir).parent}"
        run("cmake", "-S", work, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={prefixes}", f"-DCMAKE_CXX_FLAGS={flags} -O0")
        run("cmake", "--build", work / "build")
        check(work)


def start(work):
    return run(work / "build" / "your_program", work / "zero3.json", folder=work)


def check_first(work):
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", start(work))]
    if len(losses) != 99 or not losses[-1] < 0.5 * losses[0]:
        sys.exit(f"the losses of docs/torch.md's first program: {losses}")


def check_whole(work):
    """Runs it, and again from the checkpoint before its last one, which must print the same."""
    said = start(work)
    lines = said.splitlines()
    accuracy = float(re.search(r"step 200 .* accuracy ([0-9.]+)", said)[1])
    if len(lines) != 4 or accuracy < 0.9 or not (work / "model.safetensors").exists():
        sys.exit(f"docs/torch.md's whole program says\n{said}")
    newest = max((work / "saved").glob("step_*"))
    shutil.rmtree(newest)
    again = start(work).splitlines()
    if again != lines[3:]:
        sys.exit(f"started again behind step 150, docs/torch.md's whole program says {again} instead of {lines[3:]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
