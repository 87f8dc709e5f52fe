#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, runs all tests. Arguments go to ctest: scripts/test.sh -R parity
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

require_packages "${test_packages[@]}"
use_ccache_if_present
cmake --preset test
cmake --build --preset test
ctest --preset test --parallel "$(($(nproc) * 3 / 2))" "$@"  # every third test waits more than it computes
