// SPDX-License-Identifier: Apache-2.0
// Empty: CMake precompiles headers for a source, and this is that source (see cmake/ZerothPrecompile.cmake).
