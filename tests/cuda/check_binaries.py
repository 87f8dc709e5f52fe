# SPDX-License-Identifier: Apache-2.0
"""Checks what the built library and programs contain: kernels for all architectures of the build, and no dependency on
shared libraries of CUDA or NCCL.

    check_binaries.py images ARCHITECTURES FILE...     ARCHITECTURES as CMake's CMAKE_CUDA_ARCHITECTURES, with commas: "80-real,120"
    check_binaries.py needed READELF PROGRAM FORBIDDEN...
"""

import re
import struct
import subprocess
import sys
from pathlib import Path

MAGIC = struct.pack("<I", 0xBA55ED50)  # of a fat binary, as nvcc's `fatbinary` writes it
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of the images
IMAGE = struct.Struct("<HHIQIIHHI")  # kind, -, bytes of this header, bytes of the image, -, -, -, -, architecture
KINDS = {1: "compute", 2: "sm"}  # PTX, machine code


def wanted(architectures):
    """The images that CMake asks nvcc for, as {"sm_80", "compute_120"}."""
    names = set()
    for each in architectures.split(","):
        number, _, kind = each.partition("-")
        if not re.fullmatch(r"[0-9]+[af]?", number) or kind not in ("", "real", "virtual"):
            sys.exit(f"error: architecture {each}: this test knows numbers, with -real or -virtual behind, alone")
        names |= {f"sm_{number}"} if kind != "virtual" else set()
        names |= {f"compute_{number}"} if kind != "real" else set()
    return names


def fat_binaries(data):
    """The images by name of each fat binary in `data`, which may be an object, an archive or a program."""
    at = data.find(MAGIC)
    while at >= 0:
        _, version, header, size = HEADER.unpack_from(data, at)
        end = at + header + size
        if version == 1 and header == HEADER.size and end <= len(data):
            images, place = set(), at + header
            while place < end:
                kind, _, own, length, *_, architecture = IMAGE.unpack_from(data, place)
                images.add(f"{KINDS[kind]}_{architecture}")
                place += own + length
            yield images
        at = data.find(MAGIC, at + len(MAGIC))


def check_images(architectures, files):
    names = wanted(architectures)
    for file in files:
        found = list(fat_binaries(Path(file).read_bytes()))
        if not found:
            sys.exit(f"error: {file} has no kernels")
        for images in found:
            if images != names:
                sys.exit(f"error: {file} has a fat binary with {sorted(images)}, and the build names {sorted(names)}")
        print(f"{file}: {len(found)} fat binaries, each with {', '.join(sorted(names))}")


def check_needed(readelf, program, forbidden):
    dynamic = subprocess.run([readelf, "-d", program], check=True, capture_output=True, text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if not any(name.startswith("libc.so") for name in needed):
        sys.exit(f"error: {readelf} says that {program} needs {needed}, not even a libc")
    for name in needed:
        if any(name.startswith(f"lib{each}") for each in forbidden):
            sys.exit(f"error: {program} needs {name}, and does not start where that is not installed")
    print(f"{program} needs {', '.join(needed)}")


if __name__ == "__main__":
    if sys.argv[1] == "images":
        check_images(sys.argv[2], sys.argv[3:])
    else:
        check_needed(sys.argv[2], sys.argv[3], sys.argv[4:])
