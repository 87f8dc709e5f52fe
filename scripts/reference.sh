#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the API reference from the public headers: build/reference/html/index.html. A public name without a docstring is
# an error, and so is a docstring that refers to a missing name.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/packages.sh

require_packages doxygen
rm -rf build/reference
mkdir -p build
doxygen docs/api/Doxyfile
echo "== reference: build/reference/html/index.html, $(find build/reference/html -name '*.html' | wc -l) pages"
