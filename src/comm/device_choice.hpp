/// Which device a rank computes on.
#pragma once
#include <string>
#include <vector>

#include "comm/environment.hpp"

namespace zeroth::comm {

/// The device of a rank, a process, that sees `device_count` of them: that of its local rank. Where it sees a single
/// one that is taken to be its own, because launchers may hide the others; check_unshared() finds out if it is not.
/// Throws ConfigError where there is no device, none for this local rank, or where the launcher did not say which of
/// several. For messages, `visible` says what restricts them, "CUDA_VISIBLE_DEVICES=0,1", and `why_none` why there are
/// none.
[[nodiscard]] int device_of(Placement const& placement, int device_count, std::string const& visible = {},
                            std::string const& why_none = {});

/// Where a rank is, as it tells the others.
struct Presence {
  std::string host;     ///< For people.
  std::string machine;  ///< The same on all ranks of one machine and on no others: see machine_id().
  std::string device;   ///< A name that no other device of the machine has, say a bus id; empty: nothing to share.
  std::string problem;  ///< Why it cannot take part; empty: it can.
};
/// Of this machine, until it is started anew. Containers on one machine agree.
[[nodiscard]] std::string machine_id();

/// Throws ConfigError that names the first of `ranks` [world] that cannot take part, and why. As the next, the same on
/// all ranks that have the same list.
void check_able(std::vector<Presence> const& ranks);
/// Throws ConfigError that names all ranks of the first device that several of `ranks` [world] would compute on.
void check_unshared(std::vector<Presence> const& ranks);

}  // namespace zeroth::comm
