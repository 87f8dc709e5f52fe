// SPDX-License-Identifier: Apache-2.0
/// Symbol visibility. A shared library exports marked symbols and hides all others. If the library is shared,
/// ZEROTH_SHARED is defined while it is compiled, and the package defines it for programs that link it. Plain macros,
/// so that a compiler needs no include folder but include/.
#pragma once

#if defined(ZEROTH_SHARED)
/// Put it before the name of a class or the result type of a function to export it from a shared library. A GNU
/// attribute, because Clang rejects one in double brackets where a template is instantiated. GCC rejects it together
/// with [[nodiscard]] on a class, so mark the functions that return the class instead.
#define ZEROTH_EXPORT __attribute__((visibility("default")))
#else
#define ZEROTH_EXPORT
#endif
