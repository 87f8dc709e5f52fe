# SPDX-License-Identifier: Apache-2.0
"""Facts about compiled kernels: their table, their spills, and how operations of their PTX round."""

import concurrent.futures
import json
import pathlib
import re
import tempfile

from lib import cuda_tools, occupancy, sass
from lib.markdown import plain, table

OBJECTS = {
    "library": "cuda/CMakeFiles/zeroth_kernels.dir/*.cu.o",
    "train_gpt": "examples/train_gpt/gpu/CMakeFiles/train_gpt_gpu.dir/launch_*.cu.o",
}
_INTRODUCTION = """\
What {compiler} makes of the kernels: `scripts/kernel_table.py --write` reads it out of the objects of the preset
`cuda`, and a test compares. No GPU has run them.

In a GPU's column: registers of a thread; blocks (b) that a multiprocessor has room for, and the share of its warps that
these are; where there are any, the bytes that a thread's instructions store to + load from local memory, which has what
does not fit registers. A test holds that no loop does so but an outermost one that has others, outside them.
"""
FLOAT_OPERATION = re.compile(r"^\s*(?:@!?%p\d+\s+)?((add|sub|mul|fma|mad|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)"
                             r"((?:\.\w+)*)\.(?:f16x2|bf16x2|f32x2|f16|bf16|f32|f64))\s", re.MULTILINE)


class NotBuilt(Exception):
    """Objects are missing. The message names them."""


def objects_of(build, part):
    """The part's objects, without those of sources that the build no longer has: their files stay in its folder."""
    build = pathlib.Path(build)
    commands = build / "compile_commands.json"
    entries = json.loads(commands.read_text(encoding="utf-8")) if commands.exists() else []
    current = {build / re.search(r" -o (\S+)", entry["command"]).group(1) for entry in entries}
    found = sorted(file for file in build.glob(OBJECTS[part]) if file in current)
    if not found:
        raise NotBuilt(f"no {OBJECTS[part]} in {build}: cmake --preset cuda && cmake --build --preset cuda --target "
                       "zeroth train_gpt")
    return found


def _kernels_of(tools, file, folder):
    architecture = int(re.search(r"\.sm_(\d+)", file.name).group(1))
    found = sass.kernels_of(sass.disassembled(tools["nvdisasm"], file), architecture)
    # Since sm_90 a block's shared memory, as reported, includes the system's part.
    for kernel in found:
        if architecture >= 90 and kernel.shared > 0:
            kernel.shared -= 1024
    return found


def read_kernels(tools, build):
    """{part: kernels} for all architectures that were built."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = {}
        for part in OBJECTS:
            for file in objects_of(build, part):
                cubins = cuda_tools.extracted(tools["cuobjdump"], "elf", file, pathlib.Path(folder) / part / file.name)
                waiting.setdefault(part, []).extend(
                    threads.submit(_kernels_of, tools, cubin, folder) for cubin in cubins)
        return {part: sorted((kernel for each in some for kernel in each.result()),
                             key=lambda kernel: (kernel.name, kernel.architecture))
                for part, some in waiting.items()}


def unrounded(ptx):
    """{operation: count} of the float operations that specify no rounding, or another than to nearest, and of
    contracted and approximate ones."""
    found = {}
    for operation, name, modifiers in FLOAT_OPERATION.findall(ptx):
        if name in ("fma", "mad") or modifiers != ".rn":
            found[operation] = found.get(operation, 0) + 1
    return found


def read_roundings(tools, build):
    """{architecture: (float operations in all, unrounded ones)} of the library's kernels."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in objects_of(build, "library"):
            for ptx in cuda_tools.extracted(tools["cuobjdump"], "ptx", file, pathlib.Path(folder) / file.name):
                text = ptx.read_text()
                architecture = int(re.search(r"\.target sm_(\d+)", text).group(1))
                count, bad = found.setdefault(architecture, (0, {}))
                bad.update(unrounded(text))
                found[architecture] = count + len(FLOAT_OPERATION.findall(text)), bad
    return found


def compiler_of(build):
    """The compiler that CMake found for this folder, as "nvcc 13.0.88"."""
    for file in pathlib.Path(build).glob("CMakeFiles/*/CMakeCUDACompiler.cmake"):
        version = re.search(r'CMAKE_CUDA_COMPILER_VERSION "([^"]+)"', file.read_text())
        if version:
            return f"nvcc {version.group(1)}"
    raise NotBuilt(f"{build} was not configured with CUDA")


def _cell(kernel):
    blocks = occupancy.blocks_of(kernel.architecture, kernel.threads, kernel.registers, kernel.shared)
    share = occupancy.share_of(kernel.architecture, kernel.threads, blocks)
    local = f", local {kernel.stored} + {kernel.loaded}" if kernel.stored + kernel.loaded else ""
    return f"{kernel.registers}, {blocks} b {100 * share:.0f} %{local}"


def page_of(parts, compiler):
    """The text of docs/measured/kernels.md."""
    architectures = sorted({kernel.architecture for kernels in parts.values() for kernel in kernels})
    text = [f"# Compiled kernels\n\n{_INTRODUCTION.format(compiler=compiler)}"]
    for part, kernels in parts.items():
        rows = {}
        for kernel in kernels:
            row = rows.setdefault(kernel.name, {"threads": str(kernel.threads), "shared": kernel.shared})
            row["shared"] = max(row["shared"], kernel.shared)
            row[kernel.architecture] = _cell(kernel)
        text.append(f"\n## {'The library' if part == 'library' else '`' + part + '`'}\n\n")
        text.append(table(["kernel", "threads", "shared bytes", *(f"sm_{a}" for a in architectures)],
                          [[plain(name), row["threads"], str(row["shared"]), *(row.get(a, "") for a in architectures)]
                           for name, row in rows.items()]))
    return "".join(text)
