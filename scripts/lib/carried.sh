# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced, in a folder that scripts/gpu_carry.sh made.

# find_libraries FILE: FILE names the libraries that were too large for the archive, one a line. Adds their folders to
# LD_LIBRARY_PATH: the system's own, the CUDA toolkit's, or those of Python packages (nvidia-cublas, nvidia-nccl-cu13).
find_libraries() {
  local name found packages
  packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  while read -r name; do
    if ldconfig -p 2>/dev/null | grep -q "^\s*$name "; then
      continue
    fi
    found=$(find /usr/local/cuda/lib64/ /usr/local/cuda/targets "$packages/nvidia" -name "$name" -print -quit 2>/dev/null || true)
    if [ -z "$found" ]; then
      echo "warning: no $name in the system's folders, /usr/local/cuda or $packages/nvidia: programs that need it will fail" >&2
      continue
    fi
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${found%/*}
  done <"$1"
}
