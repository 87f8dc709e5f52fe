#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables registers, shared memory, occupancy and spills of every kernel and architecture, from the objects of the
preset cuda.

    cmake --preset cuda && cmake --build --preset cuda --target zeroth train_gpt
    scripts/kernel_table.py           prints the page docs/measured/kernels.md
    scripts/kernel_table.py --write   writes it

Needs cuobjdump, nvdisasm and c++filt. --install gets the first two from Python's package index, into build/cuda_tools.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib import cuda_tools, kernel_facts

PAGE = cuda_tools.REPOSITORY / "docs/measured/kernels.md"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=cuda_tools.REPOSITORY / "build/cuda",
                        help="folder of the build (build/cuda)")
    parser.add_argument("--install", action="store_true", help="get cuobjdump and nvdisasm, and do no more")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(cuda_tools.REPOSITORY)}")
    given = parser.parse_args(arguments)
    try:
        if given.install:
            print("\n".join(str(path) for path in cuda_tools.install().values()))
            return 0
        page = kernel_facts.page_of(kernel_facts.read_kernels(cuda_tools.find(), given.build),
                                    kernel_facts.compiler_of(given.build))
    except (cuda_tools.NoTools, kernel_facts.NotBuilt) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
