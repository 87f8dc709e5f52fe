# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced. require_packages PACKAGE...: installs the missing packages, or names them if it cannot.
# With ZEROTH_INSTALL=no in the environment it installs nothing, and names packages that may be missing.

require_packages() {
  local missing=() package
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "note: this is not Debian or Ubuntu; install these packages (Debian's names): $*" >&2
    return 0
  fi
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    return 0
  fi
  if [ "${ZEROTH_INSTALL-}" = no ]; then
    echo "note: ZEROTH_INSTALL=no, so these missing packages are not installed: ${missing[*]}" >&2
    return 0
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "error: packages are missing, and this is neither root nor is there sudo. As root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "== installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# The presets need CMake 3.25. Older systems have an older one.
require_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
  if [ "$(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1)" != 3.25 ]; then
    echo "error: CMake 3.25 or newer is required, found ${version:-none}: 'pip install cmake' installs it" >&2
    return 1
  fi
}

# Packages for building the library and its examples, then those that only tests need.
library_packages=(g++ cmake ninja-build libfmt-dev libspdlog-dev nlohmann-json3-dev libeigen3-dev libcli11-dev
  libxxhash-dev libdnnl-dev libopenmpi-dev openmpi-bin python3)
# shellcheck disable=SC2034 # for those that source this
test_packages=("${library_packages[@]}" catch2)

# clang-tidy from PyPI, in build/clang_tidy. Since release 21 it does not check the system's headers, on which Debian 12's
# spends four fifths of its time.
clang_tidy_version=23.1.4
require_clang_tidy() {
  local program=build/clang_tidy/bin/clang-tidy
  if "$program" --version 2>/dev/null | grep -q "version ${clang_tidy_version//./\\.}"; then
    return 0
  fi
  if [ "${ZEROTH_INSTALL-}" = no ]; then
    echo "error: ZEROTH_INSTALL=no, and $program is not there: 'python3 -m venv build/clang_tidy &&" \
      "build/clang_tidy/bin/pip install clang-tidy==$clang_tidy_version' installs it" >&2
    return 1
  fi
  python3 -m venv build/clang_tidy
  build/clang_tidy/bin/pip install --quiet "clang-tidy==$clang_tidy_version"
}

# Clones share ccache's objects: paths below a clone are hashed relative to it.
use_ccache_if_present() {
  if command -v ccache >/dev/null; then
    export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
  fi
}
