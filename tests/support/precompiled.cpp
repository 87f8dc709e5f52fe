// SPDX-License-Identifier: Apache-2.0
// Of no content: CMake precompiles headers for a source, and this is the source (see cmake/ZerothPrecompile.cmake).
