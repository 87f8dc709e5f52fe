# SPDX-License-Identifier: Apache-2.0
"""Modules of bench/peers that compute figures from runs and need no PyTorch."""

import importlib.util
import pathlib


def own(name):
    path = pathlib.Path(__file__).resolve().parents[2] / f"bench/peers/{name}.py"
    spec = importlib.util.spec_from_file_location(f"peers_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
