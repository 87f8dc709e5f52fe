# SPDX-License-Identifier: Apache-2.0
"""with_peak.py FILE COMMAND...: runs COMMAND, writes its peak resident memory in bytes to FILE.<rank>, and exits with
its status.

Runs between mpirun and each rank, since mpirun does not report memory. Imports little: this process's memory when it
starts COMMAND is a lower bound of what the kernel reports."""

import os
import sys

file, command = sys.argv[1], sys.argv[2:]
child = os.posix_spawnp(command[0], command, os.environ)
_, state, usage = os.wait4(child, 0)
with open(f"{file}.{os.environ.get('OMPI_COMM_WORLD_RANK', os.environ.get('PMI_RANK', '0'))}", "w") as out:
    out.write(str(usage.ru_maxrss * 1024))
sys.exit(os.waitstatus_to_exitcode(state) and 1)
