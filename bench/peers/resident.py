# SPDX-License-Identifier: Apache-2.0
"""The peak growth of a process's memory, as Linux counts it."""

import ctypes
import gc
import pathlib


def status():
    """The sizes in /proc/self/status, in bytes, by name."""
    lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return {name: 1024 * int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines)
            if value.endswith(" kB")}


def return_what_is_freed():
    """Makes malloc take blocks of a MiB and more from the system each time, and return them: by default glibc keeps up
    to half of a peer's memory in holes between tensors of different sizes. Costs page faults."""
    libc = ctypes.CDLL(None)
    m_trim_threshold, m_mmap_threshold = -1, -3
    for parameter in (m_mmap_threshold, m_trim_threshold):
        if libc.mallopt(parameter, 1 << 20) != 1:
            raise OSError(f"mallopt({parameter}) is refused")


class Growth:
    """Resident memory above that of the process as it is now.

    Pages of files (libraries, the mapped weights) do not count: they are touched as code first runs, are shared by all
    processes, and can be dropped. The kernel keeps only the peak of the sum. Since pages of files stay once they are
    in, the peak minus the final pages of files is the peak of the rest, or slightly less."""

    def __init__(self):
        gc.collect()
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the peak
        now = status()
        self.idle = now["VmRSS"] - now["RssFile"]

    def peak(self):
        now = status()
        return now["VmHWM"] - now["RssFile"] - self.idle
