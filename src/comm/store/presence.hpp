// SPDX-License-Identifier: Apache-2.0
/// Where every rank is, and whether all of them can take part.
#pragma once
#include <string>
#include <vector>

namespace zeroth::comm {

/// Where a rank is, as it tells the others.
struct Presence {
  std::string host;     ///< For people.
  std::string machine;  ///< The same on all ranks of one machine and on no others: see machine_id().
  std::string device;   ///< A name that no other device of the machine has, say a bus id; empty: nothing to share.
  std::string problem;  ///< Why it cannot take part; empty: it can.
};
/// What to do about a GPU that several ranks, as processes, would compute on; for messages.
constexpr char const* how_to_share =
    "start one rank for each GPU, or run the ranks as threads of one process, which may share GPUs with "
    "LaunchOptions::share_devices";

/// Of this machine, until it is started anew. Containers on one machine agree.
[[nodiscard]] std::string machine_id();

/// Throws ConfigError that names the first of `ranks` [world] that cannot take part, and why. As the next, the same on
/// all ranks that have the same list.
void check_able(std::vector<Presence> const& ranks);
/// Throws ConfigError that names all ranks of the first device that several of `ranks` [world] would compute on.
void check_unshared(std::vector<Presence> const& ranks);

}  // namespace zeroth::comm
