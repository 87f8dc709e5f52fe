# SPDX-License-Identifier: Apache-2.0
"""For tests that need packages of PyPI, which the virtual environment build/tensorboard may have."""
import importlib.util
import os
import pathlib
import sys

OTHER = pathlib.Path(__file__).resolve().parents[2] / "build/tensorboard/bin/python"


def need(*packages):
    """Runs this program again by OTHER if a package is missing here. Exit status: 77, skipped, if it is missing there
    as well."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if pathlib.Path(sys.prefix) == OTHER.parent.parent or not OTHER.exists():
        print(f"skipped: no {', '.join(missing)} (python3 -m venv build/tensorboard && "
              f"build/tensorboard/bin/pip install {' '.join(packages)})")
        sys.exit(77)
    os.execv(OTHER, [str(OTHER), *sys.argv])
