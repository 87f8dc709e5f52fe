#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show: builds with CUDA, runs the tests that need a GPU, then the benchmarks: AdamW
# against a copy, each layer of GPT-2 by itself, step time and exposed communication of every stage, as threads over
# `local` and as processes over NCCL, tokens per second and MFU of GPT-2 with 124 million and 1.5 billion parameters; and
# the kernels' tests under compute-sanitizer, where it is found.
# Writes gpu_check.json and gpu_check.md, and what the runs reported; whatever fails or does not end, the rest is run and
# written.
#   scripts/gpu_check.sh [--rehearse] [--only PART,...] [--minutes N] FOLDER [TEXT FILE OR FOLDER]    without a text: this project's own sources
# Parts are build, tests, adamw, layers, training and sanitizer; what the others left in FOLDER before is kept, and in the
# figures. Tests that passed before are not run again. After N minutes nothing new is begun.
# The part layers also writes algorithms_MODEL.json: cuBLASLt's fastest algorithms, which some training runs use if they are there.
# --rehearse: the same without a GPU, with programs of the preset `test` that run tiny models on the tests' own CUDA, and with
# substitutes for nvidia-smi and compute-sanitizer. It builds nothing, and its figures are no measurements. ZEROTH_BUILD names
# another build than build/test.
# Needs a driver, CUDA's toolkit with cuBLASLt, NCCL 2.28 for its tests, and what scripts/lib/packages.sh lists. With
# ZEROTH_INSTALL=no nothing is installed: folders in CMAKE_PREFIX_PATH are where CMake looks as well. Built for the GPUs
# that are here, or for those that CUDAARCHS names. In a folder that scripts/gpu_carry.sh made nothing is built.
# Exit status: 0 if all of it ran and passed, 3 if there is no GPU, 2 for wrong arguments, 1 otherwise.
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

usage() {
  echo "usage: scripts/gpu_check.sh [--rehearse] [--only build,tests,adamw,layers,training,sanitizer] [--minutes N] FOLDER [TEXT FILE OR FOLDER]" >&2
  exit 2
}
parts=build,tests,adamw,layers,training,sanitizer
minutes=600
rehearsal=no
while [[ ${1-} == --* ]]; do
  case $1 in
    --rehearse)
      rehearsal=yes
      shift
      continue
      ;;
    --only)
      parts=${2-}
      for part in ${parts//,/ }; do
        case $part in build | tests | adamw | layers | training | sanitizer) ;; *) usage ;; esac
      done
      ;;
    --minutes)
      minutes=${2-}
      [[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || usage
      ;;
    *) usage ;;
  esac
  shift $(($# < 2 ? $# : 2))
done
wanted() { [[ ,$parts, == *,"$1",* ]]; }
# Seconds that are left, at most as many as are asked for: a limit for the next program.
left() {
  local most=$((minutes * 60 - SECONDS))
  echo $((most < $1 ? most : $1))
}
failed=0
# A part that is wanted, and has time left: otherwise it counts as failed.
due() {
  wanted "$1" || return 1
  if [ "$(left 1)" -lt 1 ]; then
    echo "$1: no time left, $minutes minutes are over"
    failed=1
    return 1
  fi
}
if [ -z "$parts" ] || [ $# -lt 1 ] || [ $# -gt 2 ]; then
  usage
fi

# Where programs and the list of tests are, and what else the benchmarks are told.
programs=build/cuda
listing=build/cuda/gpu_tests.json
adamw_words=()
layers_words=()
if [ "$rehearsal" = yes ]; then
  build=${ZEROTH_BUILD:-build/test}
  programs=$build/rehearsal
  listing=$build/gpu_tests.json
  adamw_words=(1 1 4)
  layers_words=(tiny 1 1 --context 16 --vocabulary 256)
  for program in train_gpt bench_cuda_adamw bench_cuda_gpt test_cuda_kernels_gpu; do
    if [ ! -x "$programs/bin/$program" ]; then
      echo "error: there is no $programs/bin/$program. This builds what is rehearsed, with headers of CUDA, cuBLASLt and NCCL:" >&2
      echo "  cmake --preset test && cmake --build --preset test --target gpu_rehearsal" >&2
      exit 1
    fi
  done
  export PATH=$PWD/tests/support/made_up_gpu:$PATH
fi

# Asks only about the GPUs that will be used: nvidia-smi by itself shows all.
ask_gpus() { nvidia-smi ${CUDA_VISIBLE_DEVICES+"--id=$CUDA_VISIBLE_DEVICES"} "--query-gpu=$1" --format=csv,noheader; }
if ! gpus=$(ask_gpus name,memory.total,driver_version 2>&1) || [ -z "$gpus" ]; then
  echo "error: there is no GPU here (nvidia-smi says: ${gpus:-nothing}). Nothing was built, run or written." >&2
  exit 3
fi
folder=$(cd "$invoked_from" && realpath -m -- "$1")
if [ "$rehearsal" = yes ]; then
  if [[ $folder/ == "$PWD"/docs/* ]]; then
    echo "error: $folder is for what was measured, and a rehearsal measures nothing: name a folder outside docs" >&2
    exit 1
  fi
  export ZEROTH_FAKE_NCCL=$folder/nccl # where the processes of a job meet
fi
mkdir -p -- "$folder"
text=$PWD/include
if [ $# -gt 1 ]; then
  text=$(cd "$invoked_from" && realpath -- "$2")
fi
if [ ! -e "$text" ]; then
  echo "error: no file or folder ${2:-$text}" >&2
  exit 1
fi
# Names of GPUs say what a folder has: gpu_check.py knows a rehearsal by them.
if [ -e "$folder/gpus.csv" ]; then
  found=no
  if grep -q '^Made-up ' "$folder/gpus.csv"; then
    found=yes
  fi
  if [ $found != $rehearsal ]; then
    echo "error: $folder has results of $([ $found = yes ] && echo a rehearsal || echo a GPU), which this run would mix with others: name another folder" >&2
    exit 1
  fi
fi
printf '%s\n' "$gpus" | tee "$folder/gpus.csv"

# What is built. Of an archive's sources git knows nothing.
if [ $rehearsal = no ] && [ -e carried/commit.txt ]; then
  programs=carried
  listing=carried/gpu_tests.json
  cp carried/commit.txt "$folder/commit.txt"
  source scripts/lib/carried.sh
  find_libraries carried/needs.txt
else
  git describe --always --dirty >"$folder/commit.txt" 2>/dev/null || echo "unknown" >"$folder/commit.txt"
fi

if wanted build && [ "$programs" = build/cuda ]; then
  export PATH=$PATH:/usr/local/cuda/bin
  if [ -z "${CUDACXX-}" ] && ! command -v nvcc >/dev/null; then
    echo "error: there is no nvcc in PATH or /usr/local/cuda/bin, and CUDACXX names none: install CUDA's toolkit" >&2
    exit 1
  fi
  require_packages "${test_packages[@]}"
  require_cmake
  use_ccache_if_present
  echo "== building"
  # Another compiler's warnings are no reason to learn nothing.
  configuration=(-DZEROTH_WERROR=OFF)
  if [ -z "${CUDAARCHS-}" ] && capabilities=$(ask_gpus compute_cap 2>/dev/null | tr -d '. ' | sort -u) &&
    [[ $capabilities =~ ^[0-9]+(.[0-9]+)*$ ]]; then
    configuration+=("-DCMAKE_CUDA_ARCHITECTURES=${capabilities//$'\n'/-real;}-real")
  fi
  cmake --preset cuda "${configuration[@]}" >"$folder/configure.log" || { cat "$folder/configure.log"; exit 1; }
  grep '^-- Zeroth:' "$folder/configure.log" || true # what is left out
  cmake --build --preset cuda --target zeroth_gpu_tests bench_cuda_adamw bench_cuda_gpt train_gpt
fi

# One that was skipped, though there are GPUs enough, has not passed: the figures say which.
if due tests; then
  echo "== tests"
  if [ "$programs" != carried ]; then
    mkdir -p "${listing%/*}"
    label=gpu
    [ $rehearsal = no ] || label=rehearsed
    python3 scripts/lib/gpu_tests.py list --build "${listing%/*}" --label $label >"$listing" || failed=1
  fi
  ZEROTH_MEMORY_FIGURES=$folder/memory.jsonl python3 scripts/lib/gpu_tests.py run \
    --folder "$folder" --tests "$listing" --total "$(left 86400)" || failed=1
fi
if due adamw; then
  echo "== AdamW"
  timeout "$(left 600)" "$programs/bin/bench_cuda_adamw" "${adamw_words[@]}" | tee "$folder/adamw.jsonl" || failed=1
fi
if due layers; then
  echo "== layers"
  timeout "$(left 600)" "$programs/bin/bench_cuda_gpt" "${layers_words[@]}" | tee "$folder/layers.jsonl" || failed=1
  python3 scripts/lib/gpu_check.py algorithms --folder "$folder" --program "$programs/bin/bench_cuda_gpt" --seconds "$(left 600)" || failed=1
fi
if due training; then
  echo "== training"
  python3 scripts/lib/gpu_check.py run --folder "$folder" --text "$text" --program "$programs/bin/train_gpt" --seconds "$(left 86400)" || failed=1
fi
if due sanitizer; then
  echo "== compute-sanitizer"
  python3 scripts/lib/gpu_sanitizer.py --folder "$folder" --programs "$programs" --seconds "$(left 1800)" || failed=1
fi
python3 scripts/lib/gpu_check.py table --folder "$folder" || failed=1 # tables what there is, whatever failed
exit $failed
