# SPDX-License-Identifier: Apache-2.0
"""Zeroth beside the peers that shard as much, as rows of tables."""

from lib.peers_file import contender, own
from lib.table import MIB

# The contenders in order: the program, its name for readers, its variants.
SYSTEMS = {own.UNSHARDED: ("Zeroth 0", ("threads",)), own.BASE: ("Zeroth 3", ("threads", "mpi")),
           "ddp": ("DDP", ("default", "tuned")), "fsdp2": ("FSDP2", ("default", "tuned", "lean")),
           "deepspeed1": ("DeepSpeed 1", ("default", "tuned")), "deepspeed2": ("DeepSpeed 2", ("default", "tuned")),
           "deepspeed3": ("DeepSpeed 3", ("default", "tuned", "lean"))}
PAIRS = ((own.UNSHARDED, ("ddp",)), (own.BASE, ("fsdp2", "deepspeed3")))
SPEED_HEADER, MEMORY_HEADER = [], []
for _ours, _theirs in PAIRS:
    SPEED_HEADER += [f"{SYSTEMS[_ours][0]}, tokens/s", *(f"{SYSTEMS[_ours][0]} over {SYSTEMS[peer][0]}" for peer in _theirs)]
    MEMORY_HEADER += [f"{SYSTEMS[_ours][0]}, MiB per rank", *(SYSTEMS[peer][0] for peer in _theirs)]


def speed(peers, setting):
    """Cells below SPEED_HEADER: our tokens per second, and their ratio to each peer's fastest variant."""
    cells = []
    for ours, theirs in PAIRS:
        mine = _variants(peers, setting, ours).get("threads")
        cells.append(f"{mine.tokens_per_s:,.0f}" if mine else _missing(peers, setting, ours))
        for peer in theirs:
            ratios = [figures.slower_than[ours] for figures in _variants(peers, setting, peer).values()]
            least = min((ratio for ratio in ratios if ratio is not None), default=None)
            cells.append(_missing(peers, setting, peer) if least is None else f"{least:.2f} x")
    return cells


def memory(peers, setting):
    """Cells below MEMORY_HEADER: the least peak of each peer's documented variants, and that of lean, which is in no
    peer's documentation."""
    cells = []
    for system in (system for ours, theirs in PAIRS for system in (ours, *theirs)):
        found = _variants(peers, setting, system)
        lean = found.pop("lean", None)
        found.pop("mpi", None)
        told = [f"{min(figures.peak_bytes for figures in found.values()) / MIB:,.0f}"] if found else []
        told += [f"(lean {lean.peak_bytes / MIB:,.0f})"] if lean else []
        cells.append(" ".join(told) or _missing(peers, setting, system))
    return cells


def _variants(peers, setting, system):
    """{variant: Figures} of the variants that ran."""
    everyone = peers.summary.get(setting, {})
    names = {variant: contender(system, variant) for variant in SYSTEMS[system][1]}
    return {variant: everyone[name] for variant, name in names.items() if name in everyone}


def _missing(peers, setting, system):
    failed = peers.failures.get(setting, {})
    return "did not run" if any(contender(system, variant) in failed for variant in SYSTEMS[system][1]) else "-"
