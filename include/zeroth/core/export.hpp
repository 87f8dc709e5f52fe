// SPDX-License-Identifier: Apache-2.0
/// What a shared library shows: all else in it is hidden. ZEROTH_SHARED is defined, by the package for those who link
/// the library and for the library itself, where it is one. Plain, so that a compiler needs no folder but include/.
#pragma once

#if defined(ZEROTH_SHARED)
/// Before the name of a class or the result of a function: a shared library shows it.
#define ZEROTH_EXPORT [[gnu::visibility("default")]]
#else
#define ZEROTH_EXPORT
#endif
