# SPDX-License-Identifier: Apache-2.0
"""How many blocks of a kernel a multiprocessor has room for (CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability")."""

import dataclasses

WARP = 32
_REGISTERS = 65536  # registers of 32 bits, allocated to a warp in units of 256
_REGISTER_UNIT = 256
_RESERVED = 1024  # bytes of shared memory per block that the system uses
_SHARED_UNIT = 128


@dataclasses.dataclass(frozen=True)
class Multiprocessor:
    threads: int
    blocks: int
    shared: int  # bytes


MULTIPROCESSORS = {
    80: Multiprocessor(2048, 32, 164 * 1024),
    90: Multiprocessor(2048, 32, 228 * 1024),
    100: Multiprocessor(2048, 32, 228 * 1024),
    120: Multiprocessor(1536, 24, 100 * 1024),
}


def _up(value, unit):
    return -(-value // unit) * unit


def blocks_of(architecture, threads, registers, shared):
    """`registers` per thread; `shared`: bytes of shared memory per block, without the system's part."""
    of = MULTIPROCESSORS[architecture]
    warps = -(-threads // WARP)
    by_registers = _REGISTERS // _up(registers * WARP, _REGISTER_UNIT) // warps
    by_shared = of.shared // _up(shared + _RESERVED, _SHARED_UNIT)
    return min(of.blocks, of.threads // (warps * WARP), by_registers, by_shared)


def share_of(architecture, threads, blocks):
    """The share of a multiprocessor's warps that `blocks` blocks occupy."""
    return blocks * _up(threads, WARP) / MULTIPROCESSORS[architecture].threads
