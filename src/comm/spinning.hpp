// SPDX-License-Identifier: Apache-2.0
/// Whether ranks that wait for each other spin for a moment before they sleep.
#pragma once

namespace zeroth::comm {

/// The environment variable that forbids it, and its only value.
inline constexpr char const *spin_variable = "ZEROTH_SPIN", *spin_never = "never";

/// False if `ranks`, the job's ranks on this machine, are more than its cores, where a rank that spins delays those
/// that it waits for; and in processes with ZEROTH_SPIN=never, which share cores with other programs. Any other value
/// counts as none: launch() rejects it.
[[nodiscard]] bool may_spin(int ranks) noexcept;

}  // namespace zeroth::comm
