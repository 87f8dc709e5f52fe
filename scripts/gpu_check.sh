#!/usr/bin/env bash
# Everything that only a GPU can show: builds with CUDA, runs the tests that need a GPU, then the benchmarks: AdamW
# against a copy, step time and exposed communication of every stage, tokens per second and MFU of GPT-2 with 124 million
# and 1.5 billion parameters. Writes gpu_check.json and gpu_check.md, and what the runs reported.
#   scripts/gpu_check.sh FOLDER [TEXT FILE OR FOLDER]     without a text: this project's own sources
# Exit status: 0 if all of it ran and passed, 3 if there is no GPU, 1 otherwise.
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: scripts/gpu_check.sh FOLDER [TEXT FILE OR FOLDER]" >&2
  exit 2
fi
if ! gpus=$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>&1) || [ -z "$gpus" ]; then
  echo "error: there is no GPU here (nvidia-smi says: ${gpus:-nothing}). Nothing was built, run or written." >&2
  exit 3
fi
folder=$(cd "$invoked_from" && mkdir -p -- "$1" && realpath -- "$1")
text=$PWD/include
if [ $# -gt 1 ]; then
  text=$(cd "$invoked_from" && realpath -- "$2")
fi
if [ ! -e "$text" ]; then
  echo "error: no file or folder ${2:-$text}" >&2
  exit 1
fi
printf '%s\n' "$gpus" | tee "$folder/gpus.csv"

# What is built. Of an archive's sources git knows nothing.
git describe --always --dirty >"$folder/commit.txt" 2>/dev/null || echo "unknown" >"$folder/commit.txt"

require_packages "${test_packages[@]}"
use_ccache_if_present
echo "== building"
cmake --preset cuda >"$folder/configure.log" || { cat "$folder/configure.log"; exit 1; }
cmake --build --preset cuda

# One that was skipped, though there are GPUs enough, has not passed: the figures say which.
echo "== tests"
tests=0
rm -f "$folder/tests.xml" "$folder/memory.jsonl" "$folder/adamw.jsonl" # of an earlier check
ZEROTH_MEMORY_FIGURES=$folder/memory.jsonl ctest --preset cuda -L '^gpu$' --output-junit "$folder/tests.xml" || tests=1

echo "== AdamW"
build/cuda/bin/bench_cuda_adamw | tee "$folder/adamw.jsonl"

echo "== training"
runs=0
python3 scripts/lib/gpu_check.py run --folder "$folder" --text "$text" --program build/cuda/bin/train_gpt || runs=1
python3 scripts/lib/gpu_check.py table --folder "$folder" || runs=1 # tables what there is, whatever failed
exit $((tests | runs))
