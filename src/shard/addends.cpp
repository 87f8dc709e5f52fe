// SPDX-License-Identifier: Apache-2.0
#include "shard/addends.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/lane_hash.hpp"

namespace zeroth::shard {

void Addends::read(FlatId flat, Range range, void const* addend, Dtype dtype) {
  constexpr std::int64_t most = std::int64_t{1} << 16U;
  if (!on_) {
    return;
  }
  auto& stream = memory_->stream(Lane::reduce);
  auto const memory = memory_->device().allocate_host(most * bytes_of(Dtype::fp32));
  auto* const on_host = reinterpret_cast<float*>(memory->data());
  for (auto const& placed : memory_->flat(flat).gradients().params) {
    Addend found{.param = placed.param};
    LaneHash hash;
    auto const end = std::min(range.end, placed.offset + placed.count);
    for (auto first = std::max(range.begin, placed.offset); first < end; first += most) {
      auto const count = std::min(most, end - first);
      auto const* const from = static_cast<std::byte const*>(addend) + (first - range.begin) * bytes_of(dtype);
      memory_->kernels().convert(stream, on_host, Dtype::fp32, from, dtype, count);
      stream.synchronize();
      std::span const piece{on_host, static_cast<std::size_t>(count)};
      hash.add(std::as_bytes(piece));
      found.nonzero_count +=
          std::ranges::count_if(piece, [](float value) { return std::isfinite(value) && value != 0; });
    }
    found.hash = hash.value();
    addends_.push_back(found);
  }
}

}  // namespace zeroth::shard
