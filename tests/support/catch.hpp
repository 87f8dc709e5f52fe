// SPDX-License-Identifier: Apache-2.0
/// The only file that depends on the version of Catch2: 2 or 3. Its assertions are not thread-safe: assert on the main
/// thread.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

// Version 2's names.
namespace Catch {
using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::Message;
using Matchers::StartsWith;
[[nodiscard]] inline auto Contains(std::string const& part) { return Matchers::ContainsSubstring(part); }
}  // namespace Catch
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
