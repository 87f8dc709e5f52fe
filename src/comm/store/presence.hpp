// SPDX-License-Identifier: Apache-2.0
/// The location of every rank, and whether all of them can take part.
#pragma once
#include <string>
#include <vector>

namespace zeroth::comm {

/// The location of a rank, as it reports it to the others.
struct Presence {
  std::string host;     ///< For messages.
  std::string machine;  ///< The same on all ranks of one machine, and unique among machines: see machine_id().
  std::string device;   ///< A name that is unique on the machine, for example a bus id; empty: no device to share.
  std::string problem;  ///< Why it cannot take part; empty: it can.
};
/// The remedy for a GPU that several ranks, as processes, would use; for messages.
constexpr char const* how_to_share =
    "start one rank for each GPU, or run the ranks as threads of one process, which may share GPUs with "
    "LaunchOptions::share_devices";

/// An id of this machine until its next boot. Containers on one machine agree.
[[nodiscard]] std::string machine_id();

/// Throws ConfigError that names the first of `ranks` [world] that cannot take part, with its reason. All ranks that
/// have the same list throw the same.
void check_able(std::vector<Presence> const& ranks);
/// Throws ConfigError that names all ranks of the first device that several of `ranks` [world] would use.
void check_unshared(std::vector<Presence> const& ranks);

}  // namespace zeroth::comm
