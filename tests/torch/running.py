# SPDX-License-Identifier: Apache-2.0
"""Starts programs for the tests of the LibTorch adapter."""

import subprocess
import sys


def run(*command, folder=None):
    """Runs a program in `folder`, or here, and returns its standard output. If it fails, ends the test with all of its
    output."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{ended.stdout}\n{ended.stderr}")
    return ended.stdout
