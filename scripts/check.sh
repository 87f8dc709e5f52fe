#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formatting (clang-format 14) of all our C++, the licence in every source and script, and clang-tidy 14 over the library's sources.
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

# The headers come along with the sources that include them; tests and examples are checked by the compiler alone.
if [ $# -gt 0 ]; then
  sources=("$@")
else
  mapfile -t sources < <(git ls-files -- 'src/*.cpp' 'optim/*.cpp')
fi
cmake --preset dev >/dev/null  # for build/dev/compile_commands.json
# Options and precompiled headers that only GCC has would end clang-tidy. -fno-loop-* steer its vectoriser.
mkdir -p build/tidy
sed -E 's/ -fno-loop-[a-z-]+| -fpch-preprocess| -Winvalid-pch| -include [^ "]*cmake_pch.hxx//g' \
  build/dev/compile_commands.json >build/tidy/compile_commands.json
echo "== clang-tidy: ${#sources[@]} sources"
printf '%s\0' "${sources[@]}" |
  xargs -0 --max-args=1 --max-procs="$(nproc)" clang-tidy-14 -p build/tidy --quiet --extra-arg=-Wno-everything \
    2> >(grep -v 'warnings generated' >&2)
echo "== clang-tidy found nothing"
