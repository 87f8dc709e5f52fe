/// Which device a rank computes on.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace zeroth::comm {

enum class Sharing : std::uint8_t { refuse, allow };

/// The device of a rank that sees `device_count` of them: that of its local rank. Where it sees a single one that is
/// taken to be its own, because launchers may hide the others; check_unshared() finds out if it is not. With
/// Sharing::allow local ranks beyond the last device begin again at the first. Throws ConfigError where there is no
/// device, or none for this local rank. `visible` says what restricts them, for messages: "CUDA_VISIBLE_DEVICES=0,1".
[[nodiscard]] int device_of(int local_rank, int device_count, Sharing sharing, std::string const& visible = {});

/// Where a rank is, as it tells the others.
struct Presence {
  std::string host;     ///< For people.
  std::string machine;  ///< The same on all ranks of one machine and on no others: see machine_id().
  std::string device;   ///< A name that no other device of the machine has, say a bus id; empty: nothing to share.
  int local_rank = 0;
};
/// Of this machine, until it is started anew. Containers on one machine agree.
[[nodiscard]] std::string machine_id();

/// Throws ConfigError that names all ranks of the first device that several of `ranks` [world] would compute on. The
/// same on all ranks that have the same list.
void check_unshared(std::vector<Presence> const& ranks);

}  // namespace zeroth::comm
