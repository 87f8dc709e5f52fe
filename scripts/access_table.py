#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables the cost of the kernels' memory accesses, counted by the tests that interpret their PTX.

    cmake --preset test && cmake --build --preset test --target test_ptx_kernels test_ptx_train_gpt_kernels
    scripts/access_table.py           prints the page docs/measured/accesses.md
    scripts/access_table.py --write   writes it

Needs an nvcc that knows both architectures, sm_80 and sm_100.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from lib.markdown import table

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/measured/accesses.md"
ARCHITECTURES = ("80", "100")
PARTS = {"The library": "ptx_kernels", "train_gpt": "ptx_train_gpt_kernels"}
INTRODUCTION = """\
# Accesses to memory

What the kernels' accesses to memory take, over the least that the same bytes could take: counts, not times. No GPU has
run them. The tests that interpret the PTX count it over all of their cases, of small and odd shapes, and fail if a
kernel takes more than a tenth above this page. `scripts/access_table.py --write` makes it from their counts.

- Banks: passes over the 32 banks of shared memory, each of which serves one word of 4 bytes per pass. 1 has no bank
  conflicts.
- Sectors: sectors of 32 bytes of global memory that a warp's access touches. 1 uses every byte that is moved at once;
  the rest of a sector may be used by a later access, out of the cache.

An empty cell: there were no such accesses. sm_90 has the PTX of sm_80.
"""


def counts_of(build, test, folder):
    """{kernel: (banks, sectors)}, from a run of all cases."""
    file = pathlib.Path(folder) / f"{test}.tsv"
    subprocess.run(["ctest", "--test-dir", str(build), "-R", f"^{test}$", "--output-on-failure"], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "ZEROTH_PTX_WRITE_ACCESSES": str(file)})
    lines = file.read_text(encoding="utf-8").splitlines()
    return {name: tuple("" if count == "0.00" else count for count in counts)
            for name, *counts in (line.split("\t") for line in lines)}


def page_of(build):
    """The text of the page."""
    page = INTRODUCTION
    head = ["kernel"] + [f"sm_{architecture} {what}" for architecture in ARCHITECTURES for what in ("banks", "sectors")]
    with tempfile.TemporaryDirectory() as folder:
        for part, test in PARTS.items():
            counts = [counts_of(build, f"{test}_sm{architecture}", folder) for architecture in ARCHITECTURES]
            names = sorted(set().union(*counts))
            rows = [[f"`{name}`"] + [cell for each in counts for cell in each.get(name, ("", ""))] for name in names]
            page += f"\n## {part}\n\n" + table(head, rows)
    return page


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build/test",
                        help="folder of the build (build/test)")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(REPOSITORY)}")
    given = parser.parse_args(arguments)
    try:
        page = page_of(given.build)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"error: {error}: build test_ptx_kernels and test_ptx_train_gpt_kernels first",
              file=sys.stderr)
        return 2
    if given.write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
