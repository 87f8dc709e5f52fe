// SPDX-License-Identifier: Apache-2.0
/// Hashes of the addends that tensor ranks have of partial gradients, so that ranks can tell whether they really
/// differ.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/memory.hpp"

namespace zeroth::shard {

/// This rank's addend of the gradient of a parameter, in the elements that it sums over tensor ranks.
struct Addend {
  ParamId param{};
  std::uint64_t hash = 0;
  std::int64_t nonzero_count = 0;  ///< Elements that are finite and not 0.
};

/// Reads addends before they are summed, on request.
class Addends {
 public:
  explicit Addends(Memory& memory) noexcept : memory_{&memory} {}
  /// Whether the next sums are read. Off at first, because reading waits for the reduce stream.
  void record(bool on) noexcept { on_ = on; }
  /// Reads `range` of the gradients of `flat`, which lies at `addend`. Waits for the reduce stream.
  void read(FlatId flat, Range range, void const* addend, Dtype dtype);
  /// The addends since the last call, in the order of sums, which is the same on all tensor ranks.
  [[nodiscard]] std::vector<Addend> take() noexcept { return std::exchange(addends_, {}); }

 private:
  Memory* memory_;
  bool on_ = false;
  std::vector<Addend> addends_;
};

}  // namespace zeroth::shard
