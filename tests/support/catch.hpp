// SPDX-License-Identifier: Apache-2.0
/// The one place that knows which Catch2 this is: 2, or 3. Its assertions are not thread-safe: assert on the main
/// thread.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

// As version 2 has them.
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
