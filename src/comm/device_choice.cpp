#include "comm/device_choice.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <utility>

#include "comm/socket.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

int device_of(int local_rank, int device_count, Sharing sharing, std::string const& visible) {
  ZEROTH_EXPECTS(local_rank >= 0 && device_count >= 0,
                 fmt::format("device_of: local rank {}, {} devices", local_rank, device_count));
  auto const where = visible.empty() ? std::string{} : fmt::format(" ({})", visible);
  if (device_count == 0) {
    throw ConfigError{fmt::format("local rank {} needs a device, and this process sees none{}", local_rank, where)};
  }
  if (device_count == 1) {
    return 0;
  }
  if (local_rank >= device_count && sharing == Sharing::refuse) {
    throw ConfigError{
        fmt::format("local rank {} has no device of its own: this process sees {}{}; start at most {} "
                    "ranks on this machine, or ask for shared devices",
                    local_rank, device_count, where, device_count)};
  }
  return local_rank % device_count;
}

std::string machine_id() {
  std::string id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
  return id.empty() ? host_name() : id;
}

void check_unshared(std::vector<Presence> const& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].device.empty()) {
      users[{ranks[rank].machine, ranks[rank].device}].push_back(rank);
    }
  }
  for (auto const& [place, sharers] : users) {
    if (sharers.size() > 1) {
      throw ConfigError{
          fmt::format("ranks {} would all compute on device {} of {}: start one rank for each device, "
                      "or ask for shared devices",
                      fmt::join(sharers, ", "), place.second, ranks[sharers.front()].host)};
    }
  }
}

}  // namespace zeroth::comm
