#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a GPT under a memory limit, under which the plan of stage 3 alone is rejected. Masters and optimizer states are
# on disk, as `zeroth plan` advises, and losses equal those of stage 3 without the limit. About three minutes on two
# cores after the build.
#   scripts/demo_offload.sh [--into FOLDER] [DISK FOLDER]
# DISK FOLDER: where states are, on a disk; default out/demo_offload. --into: where the reports go, instead of
# out/demo_offload.
set -euo pipefail
usage() { sed -n '3,8s/^# \{0,1\}//p' "$0"; }
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
out=out/demo_offload
reports=$out
if [ "${1-}" = --into ]; then
  reports=$(cd "$invoked_from" && realpath -m -- "${2?--into needs a folder}")
  shift 2
fi
mkdir -p "$out" "$reports"
disk=$PWD/$out
if [ $# -gt 0 ]; then
  disk=$(cd "$invoked_from" && realpath -- "$1")
fi

use_ccache_if_present
echo "== building"
cmake --preset release >$out/configure.log || { cat $out/configure.log; exit 1; }
cmake --build --preset release --target train_gpt zeroth_tool

ranks=2
shape=(--layers 8 --heads 8 --channels 768 --context 64 --seed 1)
cat >$out/stage3.json <<'END'
{
  "train_micro_batch_size_per_gpu": 1,
  "zero_optimization": {"stage": 3, "overlap_comm": true, "stage3_prefetch_bucket_size": 0, "reduce_bucket_size": 2e6},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}},
  "gradient_clipping": 1.0,
  "zeroth": {"flight_recorder": "out/demo_offload"}
}
END
train() {  # stage file, steps, report, more options
  build/release/bin/train_gpt --config "$1" --data /usr/include/eigen3 --ranks $ranks --steps "$2" --report "$3" \
    "${shape[@]}" "${@:4}"
}
# One malloc arena and small stacks keep a process's address space near the memory that it uses.
limited() {  # KiB, command
  (ulimit -s 1024 && ulimit -v "$1" && MALLOC_ARENA_MAX=1 "${@:2}")
}

echo "== stage 3, without a limit"
steps=12
train $out/stage3.json $steps "$reports/stage3.jsonl" --save-initial $out/model

echo "== the plan's advice for two thirds of that memory"
total=$(build/release/bin/zeroth plan --model $out/model --ranks $ranks --config $out/stage3.json --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["stages"][3]["total"])')
gib=$(python3 -c "print($total * 0.66 / 2**30)")
advice() {  # status 3: it does not fit, as expected here
  build/release/bin/zeroth plan --model $out/model --ranks $ranks --config $out/stage3.json --device-memory "$gib" "$@" || [ $? = 3 ]
}
advice
advice --json |
  python3 scripts/lib/advised_offload.py $out/stage3.json "$disk" >$out/offload.json

echo "== the address space of a process that follows the advice"
needed=$(MALLOC_ARENA_MAX=1 python3 scripts/lib/peak_address_space.py build/release/bin/train_gpt --config $out/offload.json \
  --data /usr/include/eigen3 --ranks $ranks --steps 2 "${shape[@]}")
limit=$((needed + needed / 20))
echo "$((needed / 1024)) MiB; the limit from here on is $((limit / 1024)) MiB (ulimit -v)"

echo "== stage 3 alone, under the limit: must be rejected"
status=0
limited $limit train $out/stage3.json $steps $out/refused.jsonl 2>&1 | tee $out/refused.log || status=$?
if [ $status = 0 ] || ! grep -q "the plan asks for" $out/refused.log; then
  echo "error: the plan did not reject stage 3 under the limit" >&2
  exit 1
fi

echo "== stage 3 with states on the disk of $disk, under the limit"
limited $limit train $out/offload.json $steps "$reports/offload.jsonl"
echo
python3 scripts/report.py "stage 3=$reports/stage3.jsonl" "stage 3, states on a disk=$reports/offload.jsonl" \
  --html $out/report.html --title "Training what does not fit: $((limit / 1024)) MiB"
