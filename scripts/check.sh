#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting (clang-format 14) of all our C++, the licence in every source and script, and clang-tidy 14 over the sources of
# the library, the tool and the examples.
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
require_packages "${test_packages[@]}" clang-format-14 clang-tidy-14

mapfile -t formatted < <(git ls-files -- '*.cpp' '*.hpp' '*.cu')
if $fix; then
  clang-format-14 -i "${formatted[@]}"
else
  clang-format-14 --dry-run --Werror "${formatted[@]}"
fi
echo "== formatting: ${#formatted[@]} files are as .clang-format says"

scripts/check_license.py

# Headers come along with the sources that include them, kernels with those of the tests that compile all of them for the host.
# Other tests, bench/, cmake/ and .cu files, whose commands are nvcc's, are checked by the compiler alone.
if [ $# -gt 0 ]; then
  sources=("$@")
else
  mapfile -t sources < <(git ls-files -- 'src/*.cpp' 'optim/*.cpp' 'tools/*.cpp' 'examples/*.cpp' 'tests/*/emulated_launch.cpp')
fi
cmake --preset dev >/dev/null  # for build/dev/compile_commands.json
# Options and precompiled headers that only GCC has would end clang-tidy. -fno-loop-* steer its vectoriser.
mkdir -p build/tidy
sed -E 's/ -fno-loop-[a-z-]+| -fpch-preprocess| -Winvalid-pch| -include [^ "]*cmake_pch.hxx//g' \
  build/dev/compile_commands.json >build/tidy/compile_commands.json

# For a source without a command clang-tidy would guess one. What needs the headers of CUDA, cuBLASLt or NCCL has one where
# there are such headers: the preset compiles it for tests on the host. All else has one everywhere.
needs_headers='^src/(device/(cuda_|nccl)|comm/(nccl/|launch/nccl_job))|^examples/train_gpt/gpu/|emulated_launch'
checked=()
for source in "${sources[@]}"; do
  if grep -qF "/${source#/}\"" build/tidy/compile_commands.json; then
    checked+=("$source")
  elif [[ $source =~ $needs_headers ]]; then
    echo "note: no clang-tidy over $source: the preset dev found no headers of CUDA, cuBLASLt or NCCL for it" >&2
  else
    echo "error: no clang-tidy over $source: the preset dev does not compile it" >&2
    exit 1
  fi
done
echo "== clang-tidy: ${#checked[@]} of ${#sources[@]} sources"
printf '%s\0' "${checked[@]}" |
  xargs -0 --max-args=1 --max-procs="$(nproc)" clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wno-everything \
    2> >(grep -v 'warnings generated' >&2)
echo "== clang-tidy found nothing"
