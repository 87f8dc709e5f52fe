// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/async_copies.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "support/ptx/block.hpp"

namespace zeroth::testing::ptx {

void AsyncCopies::start() { std::ranges::fill(threads_, Thread{}); }

void AsyncCopies::copy(Warp& warp, int lane, std::uint64_t to, std::uint64_t from, std::size_t bytes,
                       std::size_t there) {
  if (there > bytes) {
    throw Fault{"cp.async of " + std::to_string(there) + " of " + std::to_string(bytes) + " bytes"};
  }
  int const thread = warp.thread_of(lane);
  auto& mine = threads_[static_cast<std::size_t>(thread)];
  Copy copy{mine.groups, to, bytes, {}};
  if (there > 0) {
    std::memcpy(copy.data.data(), warp.block().global.read(from, bytes), there);
  }
  warp.block().shared.expect(to, bytes, thread);
  mine.copies.push_back(copy);
}

void AsyncCopies::commit(int thread) { ++threads_[static_cast<std::size_t>(thread)].groups; }

void AsyncCopies::wait(Warp& warp, int lane, std::int64_t left) {
  int const thread = warp.thread_of(lane);
  auto& mine = threads_[static_cast<std::size_t>(thread)];
  auto const end =
      std::ranges::find_if(mine.copies, [&](Copy const& copy) { return copy.group >= mine.groups - left; });
  for (auto copy = mine.copies.begin(); copy != end; ++copy) {
    std::memcpy(warp.block().shared.arrive(copy->to, copy->bytes, thread), copy->data.data(), copy->bytes);
  }
  mine.copies.erase(mine.copies.begin(), end);
}

void AsyncCopies::expect_committed(Warp const& warp, Lanes lanes) const {
  for_each_lane(lanes, [&](int lane) {
    auto const& thread = threads_[static_cast<std::size_t>(warp.thread_of(lane))];
    if (!thread.copies.empty() && thread.copies.back().group == thread.groups) {
      throw Fault{"a thread ends with a cp.async that was not committed"};
    }
  });
}

}  // namespace zeroth::testing::ptx
