#include "comm/device_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <map>
#include <utility>

#include "comm/socket.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {

namespace {

constexpr char const* how_to_share =
    "start one rank for each GPU, or run the ranks as threads of one process, which may share GPUs with "
    "LaunchOptions::share_devices";

}  // namespace

int device_of(Placement const& placement, int device_count, std::string const& visible, std::string const& why_none) {
  auto const where = visible.empty() ? std::string{} : fmt::format(" ({})", visible);
  if (device_count <= 0) {
    throw ConfigError{fmt::format("it needs a GPU, and its process sees none{}: {}", where, why_none)};
  }
  if (device_count == 1 || (placement.world == 1 && !placement.local_rank)) {
    return 0;
  }
  if (!placement.local_rank) {
    throw ConfigError{
        fmt::format("its process sees {} GPUs{}, and {} ({}) did not say which is its own: set {} in the environment "
                    "to the rank's index on its machine, or let each process see one GPU alone",
                    device_count, where, placement.launcher, placement.variables, local_rank_variable(placement.kind))};
  }
  if (*placement.local_rank >= device_count) {
    throw ConfigError{fmt::format("local rank {} has no GPU of its own: its process sees {}{}; {}",
                                  *placement.local_rank, device_count, where, how_to_share)};
  }
  return *placement.local_rank;
}

std::string machine_id() {
  std::string id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> id;
  return id.empty() ? host_name() : id;
}

void check_able(std::vector<Presence> const& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (auto const& each = ranks[rank]; !each.problem.empty()) {
      throw ConfigError{fmt::format("rank {} on {} cannot take part: {}", rank, each.host, each.problem)};
    }
  }
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
      throw ConfigError{fmt::format("ranks {} would all compute on GPU {} of {}: {}", fmt::join(sharers, ", "),
                                    place.second, ranks[sharers.front()].host, how_to_share)};
    }
  }
}

}  // namespace zeroth::comm
