#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains the same small GPT at stages 0, 1, 2 and 3 on 4 ranks, from the same weights on the same text. Then trains it
# again in two processes, of which the second resumes at another stage from the checkpoint of the first. Prints a table
# of memory, loss and speed, and writes a page with charts. About three minutes on two cores after the build.
#   scripts/demo.sh [--into FOLDER] [TEXT FILE OR FOLDER]
# Without a text: the headers of Eigen, which the build needs anyway. --into: where the reports go, instead of out/demo.
set -euo pipefail
usage() { sed -n '3,7s/^# \{0,1\}//p' "$0"; }
case ${1-} in
  -h | --help) usage; exit ;;
  --into) ;;
  -*) echo "error: unknown option $1" >&2; usage >&2; exit 2 ;;
esac
invoked_from=$PWD
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

require_packages "${library_packages[@]}"
require_cmake
reports=out/demo
if [ "${1-}" = --into ]; then
  reports=$(cd "$invoked_from" && realpath -m -- "${2?--into needs a folder}")
  shift 2
fi
text=/usr/include/eigen3
if [ $# -gt 0 ]; then
  text=$(cd "$invoked_from" && realpath -- "$1")
fi
if [ ! -e "$text" ]; then
  echo "error: no file or folder ${1:-$text}" >&2
  exit 1
fi

use_ccache_if_present
echo "== building"
mkdir -p out/demo "$reports"
cmake --preset release >out/demo/configure.log || { cat out/demo/configure.log; exit 1; }
cmake --build --preset release --target train_gpt

ranks=4
train() {  # stage, steps, report, more options
  build/release/bin/train_gpt --config "configs/zero$1.json" --data "$text" --ranks $ranks --steps "$2" --report "$3" \
    --layers 12 --heads 4 --channels 256 --context 128 --seed 1 "${@:4}"
}

# As many steps as fit: all training together takes two and a half minutes, on slow machines too.
train 0 4 out/demo/probe.jsonl >out/demo/probe.log || { cat out/demo/probe.log; exit 1; }
steps=$(python3 scripts/lib/affordable_steps.py out/demo/probe.jsonl --seconds 30 --most 60)

labelled=()
for stage in 0 1 2 3; do
  echo "== stage $stage, $ranks ranks, $steps steps"
  train $stage "$steps" "$reports/stage$stage.jsonl" --save-final out/demo/straight
  labelled+=("stage $stage=$reports/stage$stage.jsonl")
done

half=$((steps / 2))
resuming=(--checkpoint out/demo/checkpoints --resume auto --save-final out/demo/resumed)
rm -rf out/demo/checkpoints
echo "== stage 0, $half steps and a checkpoint"
train 0 $half out/demo/first.jsonl "${resuming[@]}"
echo "== stage 3, from there to step $steps"
train 3 "$steps" out/demo/second.jsonl "${resuming[@]}"
echo
python3 scripts/report.py "${labelled[@]}" --html out/demo/report.html \
  --resumed out/demo/first.jsonl out/demo/second.jsonl \
  --weights out/demo/straight/model.safetensors out/demo/resumed/model.safetensors
