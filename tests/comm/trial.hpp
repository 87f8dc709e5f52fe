// SPDX-License-Identifier: Apache-2.0
/// One collective on one rank: its memory, and the expected result.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "comm/buffer.hpp"
#include "comm/elements.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm::conformance {

enum class Place : bool { out_of_place, in_place };

struct Probe {
  Operation operation = Operation::barrier;
  Dtype dtype = Dtype::fp32;
  std::int64_t count = 0;
  Place place = Place::out_of_place;
  int root = 0;
};

/// Input and output are in one block, with filler before, between and after them. Everything in the block has an
/// expected value, so a stray write is detected as well as a wrong value.
class Trial {
 public:
  Trial(Workspace& workspace, Probe const& probe, int rank, int world, Source const& source = small_numbers);
  [[nodiscard]] Collective const& collective() const noexcept { return collective_; }
  /// Call once the stream has passed. A description of the first wrong element; empty if all are right.
  [[nodiscard]] std::string problem() const;

  /// In elements: the sizes of input and output, their offsets in the block, and the size of the block.
  struct Layout {
    std::int64_t inputs = 0, outputs = 0;
    std::int64_t input_at = 0, output_at = 0;
    std::int64_t count = 0;
  };

 private:
  /// The content of the block before the collective. Also stores the expected content after it.
  [[nodiscard]] std::vector<std::byte> contents(Source const& source);
  [[nodiscard]] Bits expected(std::int64_t index, Source const& source) const;
  void put(std::vector<std::byte>& block, std::int64_t at, Bits bits) const;
  [[nodiscard]] Bits get(std::vector<std::byte> const& block, std::int64_t at) const;

  Probe probe_;
  int rank_, world_;
  Layout layout_;
  std::vector<std::byte> expected_;
  Buffer<std::byte> block_;
  Collective collective_;
};

}  // namespace zeroth::comm::conformance
