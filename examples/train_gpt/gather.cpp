// SPDX-License-Identifier: Apache-2.0
#include "gather.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

namespace gpt {

namespace {

using zeroth::comm::Label;

/// Collectives over host data: on a device of the job's kind, in memory that it shares with the host, as the job's
/// communicator requires.
class Exchange {
 public:
  explicit Exchange(zeroth::Job& job) : job_{job}, communicator_{job.communicator()}, device_{job.make_device()} {}

  /// Gathers every rank's `bytes` at `mine`, in rank order: on rank 0, and on the others too if `on_all`.
  [[nodiscard]] std::unique_ptr<zeroth::device::Memory> together(Label const& label, void const* mine,
                                                                 std::int64_t bytes, bool on_all) {
    bool const receives = on_all || job_.rank() == 0;
    auto memory = device_->allocate_host(receives ? job_.world() * bytes : bytes);
    auto* const place = memory->data() + (receives ? job_.rank() * bytes : 0);
    std::memcpy(place, mine, static_cast<std::size_t>(bytes));
    auto& stream = device_->compute();
    if (on_all) {
      communicator_.all_gather(stream, label, place, memory->data(), bytes, zeroth::Dtype::byte);
    } else {
      communicator_.gather(stream, label, place, memory->data(), bytes, zeroth::Dtype::byte, 0);
    }
    stream.synchronize();
    return memory;
  }

 private:
  zeroth::Job& job_;
  zeroth::comm::Communicator& communicator_;
  std::unique_ptr<zeroth::device::Device> device_;
};

}  // namespace

std::vector<RankMemory> gather(zeroth::Job& job, RankMemory const& mine) {
  static_assert(std::is_trivially_copyable_v<RankMemory>);
  auto const together = Exchange{job}.together({"report", "memory"}, &mine, sizeof mine, false);
  std::vector<RankMemory> all(static_cast<std::size_t>(job.world()));
  if (job.rank() == 0) {
    std::memcpy(all.data(), together->data(), all.size() * sizeof mine);
  }
  return all;
}

std::vector<std::string> gather(zeroth::Job& job, Label const& label, std::string const& mine) {
  Exchange exchange{job};
  auto const world = static_cast<std::size_t>(job.world());
  auto const length = std::ssize(mine);
  std::vector<std::int64_t> lengths(world);
  auto const gathered = exchange.together(label, &length, sizeof length, true);
  std::memcpy(lengths.data(), gathered->data(), world * sizeof length);
  auto const longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest));
  auto const text = exchange.together(label, padded.data(), longest, false);
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < world && job.rank() == 0; ++rank) {
    auto const* const begin = text->data() + static_cast<std::int64_t>(rank) * longest;
    all.emplace_back(reinterpret_cast<char const*>(begin), static_cast<std::size_t>(lengths[rank]));
  }
  return all;
}

}  // namespace gpt
