# SPDX-License-Identifier: Apache-2.0
"""Reads the advice of `zeroth plan --json`, and prints the stage file with the tier that it advises.

    zeroth plan ... --device-memory GIB --json | advised_offload.py STAGE_FILE DISK_FOLDER
"""

import json
import pathlib
import sys


def main(stage_file, folder):
    advised = json.load(sys.stdin)["advice"]["disk"]
    if not advised:
        sys.exit("error: the plan does not advise a disk")
    best = advised[-1]
    config = json.loads(pathlib.Path(stage_file).read_text(encoding="utf-8"))
    config["zero_optimization"] |= {
        "stage": best["stage"],
        "sub_group_size": best["sub_group_size"],
        "offload_optimizer": {"device": "nvme", "nvme_path": folder},
    }
    print(json.dumps(config, indent=2))


if __name__ == "__main__":
    main(*sys.argv[1:])
