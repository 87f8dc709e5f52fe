# SPDX-License-Identifier: Apache-2.0
"""Finds cuobjdump and nvdisasm: in the CUDA toolkit, or as Python packages in an environment of their own."""

import os
import pathlib
import shutil
import subprocess
import venv

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "scripts/requirements.txt"
ENVIRONMENT = REPOSITORY / "build/cuda_tools"  # ignored by git
NAMES = ("cuobjdump", "nvdisasm")


class NoTools(Exception):
    """A tool is missing. The message says how to install it."""


def find():
    """{name: path} of the tools that are installed."""
    toolkit = pathlib.Path(os.environ.get("CUDA_PATH", "/usr/local/cuda")) / "bin"
    found = {}
    for name in NAMES:
        packaged = sorted(ENVIRONMENT.glob(f"lib/python3*/site-packages/nvidia/cu13/bin/{name}"))
        path = packaged[0] if packaged else shutil.which(name) or shutil.which(name, path=str(toolkit))
        if path is None:
            raise NoTools(f"no {name}, neither in {ENVIRONMENT} nor in PATH nor in {toolkit}: "
                          "scripts/kernel_table.py --install gets it from Python's package index")
        found[name] = pathlib.Path(path)
    return found


def install():
    """Makes the environment that find() searches, with the versions in requirements.txt."""
    try:
        return find()
    except NoTools:
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([ENVIRONMENT / "bin/python", "-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS],
                       check=True)
        return find()


def extracted(cuobjdump, kind, file, folder):
    """The ELFs ("elf") or PTX ("ptx") of all architectures in an object or program, as files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([str(cuobjdump), f"-x{kind}", "all", str(file.resolve())], cwd=folder, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cuobjdump {file}: {done.stderr.strip()}")
    return sorted(folder.glob("*.ptx" if kind == "ptx" else "*.cubin"))
