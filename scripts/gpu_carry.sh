#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds an archive for a machine with a GPU: the tests that need a GPU, the benchmarks and train_gpt, with the shared
# libraries that they need. This machine needs no GPU; that machine needs no compiler and no network.
#   scripts/gpu_carry.sh ARCHIVE.tar.gz    for GPUs of CUDAARCHS, 90 (H100, H200) unless set
# On that machine: tar xzf ARCHIVE.tar.gz && zeroth_gpu/scripts/gpu_check.sh FOLDER
# That machine needs bash, python3, a driver for this CUDA, and libraries that
# are too large for an archive: cuBLASLt and NCCL, from the CUDA toolkit or from Python packages. Ranks there are
# threads, or processes over NCCL and tcp: MPI and oneDNN are left out.
set -euo pipefail
invoked_from=$PWD
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

if [ $# -ne 1 ] || [[ $1 != *.tar.gz ]]; then
  echo "usage: scripts/gpu_carry.sh ARCHIVE.tar.gz" >&2
  exit 2
fi
archive=$(cd "$invoked_from" && realpath -- "$1")
folder=$PWD/build/carry/zeroth_gpu
rm -rf "$folder"
require_packages "${test_packages[@]}"
use_ccache_if_present
export PATH=$PATH:/usr/local/cuda/bin

# Programs and libraries find the carried libraries relative to their own folder.
cmake --preset cuda -B build/carry -DCMAKE_CUDA_ARCHITECTURES="${CUDAARCHS:-90}" -DZEROTH_ENABLE_MPI=OFF -DZEROTH_ENABLE_ONEDNN=OFF \
  -DCMAKE_BUILD_RPATH='$ORIGIN/../lib' -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
cmake --build build/carry --target zeroth_gpu_tests bench_cuda_adamw bench_cuda_gpt train_gpt

mkdir -p "$folder/carried/bin" "$folder/carried/lib"
cp -r scripts include "$folder/"
python3 scripts/lib/gpu_tests.py list --build build/carry >"$folder/carried/gpu_tests.json"
git describe --always --dirty >"$folder/carried/commit.txt" 2>/dev/null || echo "unknown" >"$folder/carried/commit.txt"
for program in build/carry/bin/test_*_gpu build/carry/bin/bench_cuda_* build/carry/bin/train_gpt; do
  strip -o "$folder/carried/bin/${program##*/}" "$program"
done

# Libraries of every Linux and of the driver are left out; those that are too large are listed.
too_large='libcublasLt\.so|libcublas\.so|libnccl\.so'
everywhere='linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so|libcuda\.so'
for program in "$folder"/carried/bin/*; do
  ldd "$program"
done | awk '/=>/ {print $1, $3}' | sort -u | grep -vE "$everywhere" >build/carry/libraries.txt
{ grep -oE "^($too_large)[.0-9]*" build/carry/libraries.txt; echo libnccl.so.2; } | sort -u >"$folder/carried/needs.txt" # NCCL is loaded by name
if [ -e build/carry/bin/test_train_gpt_cudnn_gpu ]; then # so is cuDNN
  echo libcudnn.so.9 >>"$folder/carried/needs.txt"
fi
grep -vE "^($too_large)" build/carry/libraries.txt | while read -r name path; do
  cp -L "$path" "$folder/carried/lib/$name"
done
tar czf "$archive" -C "${folder%/*}" zeroth_gpu
du -h "$archive"
