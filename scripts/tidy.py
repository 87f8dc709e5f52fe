#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over sources, in groups: it spends most of its time on headers that sources share.

    scripts/tidy.py SOURCE...        with the commands of build/dev, which cmake --preset dev makes, and the clang-tidy that
                                     scripts/check.sh installs

A group is sources with the same command, concatenated in one file. If it has a finding, or does not compile because two
sources use one name for different things, its sources are checked one by one, and only those findings count. Groups
hide two kinds of findings: a repeated #include, which this script looks for, and a using declaration that only another
source of the group uses. Sources of the tool are also compiled one by one, which no preset of CI does.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from lib import tidy_groups

TIDY = ["build/clang_tidy/bin/clang-tidy", "-p", "build/tidy", "--quiet", "--extra-arg=-Wno-everything",
        "--extra-arg=-idirafter" + subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()]
# These sources may have no compile command. The preset compiles those that need headers of CUDA, cuBLASLt, NCCL or
# libtorch, for tests on the host, if it finds these headers. Of two variants, with oneDNN and without, it compiles one.
# Every other source must have a command, or clang-tidy would guess it.
NEEDS_HEADERS = re.compile(r"^src/(device/(cuda_|nccl|(no_)?cublas_lt)|comm/(nccl/|launch/nccl_job))|^examples/train_gpt/(gpu/|cpu/(no_)?onednn)"
                           r"|emulated_launch|^(examples/torch_|bench/torch|tests/torch/)")

JOINED = re.compile(r"^tools/")  # ZEROTH_JOIN_TOOL


def tidy(file, *options):
    """clang-tidy's findings in `file`; empty if there are none."""
    ended = subprocess.run([*TIDY, *options, str(file)], capture_output=True, text=True, check=False)
    said = [line for line in ended.stderr.splitlines() if "warnings generated" not in line]
    return "" if ended.returncode == 0 else "\n".join([ended.stdout, *said]).strip() or f"{file}: exit status {ended.returncode}"


def compile_alone(source, directory, words):
    """The compiler's errors for a source that presets join with others, compiled by itself: it must include what it
    uses."""
    command = ["clang++-14", *words[1:], "-Wno-unknown-warning-option", "-fsyntax-only", os.path.realpath(source)]
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stderr.strip()


def look_at(group):
    """The findings in a group; empty if there are none."""
    if len(group.sources) > 1 and not tidy(group.file, "--checks=-readability-duplicate-include"):
        return ""
    return "\n".join(filter(None, map(tidy, group.sources)))


def main(sources):
    commands = tidy_groups.commands_of(json.loads(pathlib.Path("build/dev/compile_commands.json").read_text(encoding="utf-8")))
    with_command = []
    for source in sources:
        if os.path.realpath(source) in commands:
            with_command.append(source)
        elif NEEDS_HEADERS.search(source):
            print(f"note: no clang-tidy over {source}: the preset dev found no headers of CUDA, cuBLASLt, NCCL, oneDNN or libtorch for "
                  "it, or is not without them",
                  file=sys.stderr)
        else:
            sys.exit(f"error: no clang-tidy over {source}: the preset dev does not compile it")
    folder = pathlib.Path("build/tidy")
    folder.mkdir(parents=True, exist_ok=True)
    groups = tidy_groups.make(with_command, commands, folder.resolve())
    entries = []
    for group in groups:
        group.file.write_text(tidy_groups.text_of(group.sources), encoding="utf-8")
        entries.append({"directory": group.directory, "file": str(group.file), "command": shlex.join([*group.command, str(group.file)])})
        entries += [{"directory": group.directory, "file": os.path.realpath(source),
                     "command": shlex.join([*group.command, os.path.realpath(source)])} for source in group.sources]
    (folder / "compile_commands.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")
    print(f"== clang-tidy: {len(with_command)} of {len(sources)} sources in {len(groups)} groups", flush=True)
    found = [f"{source}: #include {name} is there twice" for source in with_command
             for name in tidy_groups.included_twice(pathlib.Path(source).read_text(encoding="utf-8"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found += filter(None, pool.map(look_at, sorted(groups, key=lambda group: -len(group.sources))))
        joined = [source for source in with_command if JOINED.search(source)]
        found += filter(None, pool.map(lambda source: compile_alone(source, *commands[os.path.realpath(source)]), joined))
    if found:
        sys.exit("\n".join(found))
    print("== clang-tidy found nothing")


if __name__ == "__main__":
    main(sys.argv[1:])
