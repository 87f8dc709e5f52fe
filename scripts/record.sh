#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Remakes every figure and picture of README and docs/benchmarks.md: measures, keeps the files in docs/measured, and
# rewrites both documents. Also measures for docs/verification.md, whose tables are written by hand.
#   scripts/record.sh              all parts
#   scripts/record.sh PART...      only these parts; the others keep their files
#   demo       train_gpt at stages 0 to 3: memory, loss, tokens per second (3 minutes on two cores)
#   servers    parameter servers by `zeroth simulate`: the tables of docs/parameter_server.md (seconds)
#   stages     a model in bf16, shown with the demo, and published steps, both by `zeroth simulate`; the table of
#              docs/simulate.md (a minute)
#   gpu        scripts/gpu_check.sh, and PyTorch on the same GPU (ten minutes; needs a GPU and PyTorch; without a GPU the
#              old files stay)
#   step_time  stages over stage 0, in turns (15 minutes); the rates of configs/machines that are fitted to them; the
#              table of docs/simulate.md
#   peers      PyTorch DDP, FSDP2 and DeepSpeed against Zeroth in fp32 and bf16 (two to three hours; installs PyTorch and
#              DeepSpeed into .venv). Files of other makers' processors stay
#   tensor     tensor ranks against PyTorch's DTensor and Megatron-Core (25 minutes; installs as peers). BEFORE=PROGRAM:
#              also against a train_gpt without tensor ranks, of commit dd91945
#   checkpoints
#              saves and loads of PyTorch DCP, DeepSpeed and Zeroth (10 minutes, 4 GB of disk under out/; installs as peers)
#   savings    `zeroth plan` for 1 to 1024 ranks (seconds)
#   silent     cases of published silent errors, in Zeroth, DeepSpeed and PyTorch (five minutes; installs as peers); the
#              table of docs/benchmarks.md is written by hand
#   adamw, collectives, engine_overhead, products
#              the benchmarks of these names, for docs/verification.md; makes no page (minutes)
#   muon       bench_muon; Muon against torch.optim.Muon, DeepSpeed's, and one with owners in PyTorch (20 minutes;
#              installs as peers); makes no page
#   codecs     bench_codecs; losses of 1,000 steps with and without codecs (20 minutes); makes no page
#   pipeline   torch.distributed.pipelining against Zeroth's pipelines, two stages (an hour; installs as peers); makes no
#              page
# Do not use the machine meanwhile. A part that fails leaves its old file.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

all=(demo stages gpu step_time peers tensor checkpoints savings silent adamw collectives engine_overhead products muon codecs pipeline servers)
parts=("$@")
if [ $# -eq 0 ]; then
  parts=("${all[@]}")
fi
for part in "${parts[@]}"; do
  case " ${all[*]} " in
    *" $part "*) ;;
    *) echo "error: \"$part\" is not a part; parts are ${all[*]}" >&2; exit 2 ;;
  esac
done

kept=docs/measured
new=out/measured
mkdir -p "$kept" "$new"
require_packages "${library_packages[@]}"
use_ccache_if_present

built() {  # targets
  mkdir -p out
  cmake --preset release >out/configure.log || { cat out/configure.log; exit 1; }
  cmake --build --preset release --target "$@"
}

demo() {
  scripts/demo.sh --into "$new/demo"
  mkdir -p "$kept/demo"
  mv "$new"/demo/stage?.jsonl "$kept/demo/"
}

stages() {
  built zeroth_tool
  build/release/bin/zeroth simulate --model 7.5B --ranks 64 --machine 8xH100 --json >"$new/simulated.json"
  mv "$new/simulated.json" "$kept/"
  scripts/compare_published.py --document docs/simulate.md --record "$kept/published.json"
}

servers() {
  built zeroth_tool
  scripts/compare_servers.py --document docs/parameter_server.md
}

gpu() {
  if ! nvidia-smi >/dev/null 2>&1; then
    echo "no GPU here: docs/measured/gpu.json and gpu_peers.jsonl stay as they are"
    return
  fi
  scripts/gpu_check.sh "$new/gpu" || true  # its figures include failures
  mv "$new/gpu/gpu_check.json" "$kept/gpu.json"
  rm -f "$new/gpu_peers.jsonl"
  local words
  for words in "" "--compile" "--compile --model 124M --accumulate 1 --steps 20"; do
    # shellcheck disable=SC2086 # several words
    torchrun --nproc-per-node 1 bench/peers/gpu.py $words --out "$new/gpu_peers.jsonl"
  done
  mv "$new/gpu_peers.jsonl" "$kept/"
}

benchmark() {  # name, arguments
  built "bench_$1"
  "build/release/bin/bench_$1" "${@:2}" >"$new/$1.jsonl"
  mv "$new/$1.jsonl" "$kept/"
}

step_time() {
  benchmark step_time 12
  built zeroth_tool
  scripts/compare_simulation.py --fit --document docs/simulate.md
}

peers_installed() {
  if [ ! -x .venv/bin/python ]; then
    require_packages python3-venv python3-dev
    python3 -m venv .venv
  fi
  .venv/bin/pip install --quiet -r bench/peers/requirements.txt
}

peers() {
  built train_gpt
  peers_installed
  rm -rf "$new/peers"
  mkdir "$new/peers"
  .venv/bin/python bench/peers/run.py --out "$new/peers"
  mv "$new"/peers/*.json "$kept/"
}

pipeline() {
  built train_gpt
  peers_installed
  .venv/bin/python bench/peers/pipeline.py --out "$new/pipeline.json"
  mv "$new/pipeline.json" "$kept/"
}

tensor() {
  built train_gpt bench_random
  peers_installed
  .venv/bin/python bench/peers/tensor.py ${BEFORE:+--before "$BEFORE"} --out "$new/tensor.json"
  mv "$new/tensor.json" "$kept/"
}

checkpoints() {  # five minutes per turn: DeepSpeed compiles its Adam in the first one
  built bench_checkpoint
  peers_installed
  .venv/bin/python bench/peers/checkpoint.py --folder "$new/saved" --limit 300 --out "$new/checkpoints.json"
  rm -rf "$new/saved"
  mv "$new/checkpoints.json" "$kept/"
}

savings() {
  built zeroth_tool
  local model ranks
  for model in "7.5e9 36" "128e9 80" "1e12 128"; do  # parameters and units; the sizes of the ZeRO paper's table 1
    for ranks in 1 2 4 8 16 32 64 128 256 512 1024; do
      { build/release/bin/zeroth plan --parameters "${model% *}" --units "${model#* }" --ranks "$ranks" --device-memory 80 --json ||
        [ $? = 3 ]; } |  # it does not fit
        python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))'
    done
  done >"$new/savings.jsonl"
  mv "$new/savings.jsonl" "$kept/"
}

silent() {
  built bench_silent
  peers_installed
  .venv/bin/python bench/peers/silent.py --out "$new/silent.json"
  mv "$new/silent.json" "$kept/"
}

muon() {
  benchmark muon 7
  built train_gpt
  peers_installed
  .venv/bin/python bench/peers/muon.py --out "$new/muon_peers.json"
  mv "$new/muon_peers.json" "$kept/"
}

codecs() {
  benchmark codecs
  built train_gpt
  python3 scripts/codec_losses.py --out "$new/codec_losses.json"
  mv "$new/codec_losses.json" "$kept/"
}

adamw() {  # in all dtypes, then every rule in fp32
  built bench_adamw
  build/release/bin/bench_adamw 64 31 >"$new/adamw.jsonl"
  build/release/bin/bench_adamw 64 31 rules >>"$new/adamw.jsonl"
  mv "$new/adamw.jsonl" "$kept/"
}
engine_overhead() { benchmark engine_overhead; }
products() { benchmark products; }

collectives() {  # of threads, then of processes over MPI
  built bench_collectives
  build/release/bin/bench_collectives 15 >"$new/collectives.jsonl"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 build/release/bin/bench_collectives 7 \
    >>"$new/collectives.jsonl"
  mv "$new/collectives.jsonl" "$kept/"
}

for part in "${parts[@]}"; do
  echo "== $part"
  $part
done
echo "== README.md, docs/benchmarks.md and docs/pictures"
python3 scripts/report.py --measured "$kept" --pictures docs/pictures --documents README.md docs/benchmarks.md \
  --html out/report.html
