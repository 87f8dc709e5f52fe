#include "gather.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <zeroth/device/cpu.hpp>

namespace gpt {

std::vector<RankMemory> gather(zeroth::Job& job, RankMemory const& mine) {
  static_assert(std::is_trivially_copyable_v<RankMemory>);
  std::vector<RankMemory> all(static_cast<std::size_t>(job.world()));
  auto const device = zeroth::device::make_cpu_device();
  auto& communicator = *zeroth::detail::JobState::of(job).communicator;
  communicator.gather(device->compute(), {"report", "memory"}, &mine, all.data(), sizeof mine, zeroth::Dtype::byte, 0);
  device->compute().synchronize();
  return all;
}

std::vector<std::string> gather(zeroth::Job& job, std::string const& mine) {
  auto const world = static_cast<std::size_t>(job.world());
  auto const rank = static_cast<std::size_t>(job.rank());
  auto const device = zeroth::device::make_cpu_device();
  auto& communicator = *zeroth::detail::JobState::of(job).communicator;
  std::vector<std::int64_t> lengths(world);
  lengths[rank] = static_cast<std::int64_t>(mine.size());
  communicator.all_gather(device->compute(), {"trace", "lengths"}, &lengths[rank], lengths.data(), 1,
                          zeroth::Dtype::int64);
  device->compute().synchronize();
  auto const longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded = mine;
  padded.resize(longest);
  std::string together(rank == 0 ? world * longest : 0, ' ');
  communicator.gather(device->compute(), {"trace", "text"}, padded.data(), together.data(),
                      static_cast<std::int64_t>(longest), zeroth::Dtype::byte, 0);
  device->compute().synchronize();
  std::vector<std::string> all;
  for (std::size_t i = 0; i < world && rank == 0; ++i) {
    all.push_back(together.substr(i * longest, static_cast<std::size_t>(lengths[i])));
  }
  return all;
}

}  // namespace gpt
