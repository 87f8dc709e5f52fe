#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the formatting (clang-format 14) of all our C++ and the licence in every source and script. Runs clang-tidy
# over the sources of the library, the tool and the examples.
#   scripts/check.sh              all
#   scripts/check.sh --fix        formats in place, then clang-tidy
#   scripts/check.sh FILE.cpp...  only these sources
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

fix=false
if [ "${1:-}" = --fix ]; then
  fix=true
  shift
fi
require_packages "${test_packages[@]}" clang-14 clang-format-14 python3-venv
require_clang_tidy

mapfile -t formatted < <(git ls-files -- '*.cpp' '*.hpp' '*.cu')
if $fix; then
  clang-format-14 -i "${formatted[@]}"
else
  clang-format-14 --dry-run --Werror "${formatted[@]}"
fi
echo "== formatting: ${#formatted[@]} files are as .clang-format says"

scripts/check_license.py

# clang-tidy sees headers through the sources that include them, and kernels through the tests that compile all of them
# for the host. Only the compiler checks other tests, bench/, cmake/ and .cu files, whose commands are nvcc's.
if [ $# -gt 0 ]; then
  sources=("$@")
else
  mapfile -t sources < <(git ls-files -- 'src/*.cpp' 'optim/*.cpp' 'tools/*.cpp' 'examples/*.cpp' 'tests/*/emulated_launch.cpp')
fi
cmake --preset dev >/dev/null  # for the commands
scripts/tidy.py "${sources[@]}"
