// SPDX-License-Identifier: Apache-2.0
/// A layout of attention in the GPU's memory: a list for each of the three kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "attention_heads.hpp"
#include "gpu/kernels/tile_visits.hpp"
#include "gpu/memory.hpp"
#include "gpu/tile_lists.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {

/// The lists that each kernel of attention reads.
template <class Reads>
struct AttentionReads {
  Reads forward{}, backward_queries{}, backward_keys{};
};

/// The lists for kernels, if a copy of the words is at `memory`.
[[nodiscard]] inline ReadsListed reads_of(PackedLists const& packed, std::int32_t const* memory) {
  return {memory, memory + packed.begins_at, reinterpret_cast<TileVisit const*>(memory + packed.entries_at)};
}

/// The lists of one kernel.
class DeviceLists {
 public:
  /// Copies them on `stream`. Throws SystemError if out of memory.
  DeviceLists(PackedLists const& packed, cudaStream_t stream) : host_{std::ssize(packed.words)} {
    device_.resize(1, std::ssize(packed.words));
    std::ranges::copy(packed.words, host_.data());
    expect(cudaMemcpyAsync(device_.data(), host_.data(), packed.words.size() * sizeof(std::int32_t), cudaMemcpyDefault,
                           stream),
           "cudaMemcpyAsync of a layout of attention");
    reads_ = reads_of(packed, device_.data());
  }
  [[nodiscard]] ReadsListed const& reads() const { return reads_; }

 private:
  Pinned<std::int32_t> host_;  // the copy may still be running
  Matrix<std::int32_t> device_;
  ReadsListed reads_{};
};

class AttentionLists {
 public:
  /// Copies on `stream`, on which the kernels run. Throws SystemError if out of memory.
  template <class Kernels>
  AttentionLists(Kernels, AttentionHeads const& heads, cudaStream_t stream)
      : of_{heads.key_blocks},
        forward_{of_queries<typename Kernels::Forward>(heads), stream},
        backward_queries_{of_queries<typename Kernels::BackwardQueries>(heads), stream},
        backward_keys_{
            pack(*of_, heads.count,
                 queries_of_keys(*of_, Kernels::BackwardKeys::own_rows, Kernels::BackwardKeys::visited_rows)),
            stream} {}
  /// `heads` must be those of the constructor.
  [[nodiscard]] AttentionReads<ReadsListed> reads(AttentionHeads const& heads) const {
    ZEROTH_EXPECTS(heads.key_blocks == of_, "a second layout of attention on one Gpu");
    return {forward_.reads(), backward_queries_.reads(), backward_keys_.reads()};
  }

 private:
  template <class Kernel>
  [[nodiscard]] static PackedLists of_queries(AttentionHeads const& heads) {
    auto const& blocks = *heads.key_blocks;
    return pack(blocks, heads.count, keys_of_queries(blocks, Kernel::own_rows, Kernel::visited_rows));
  }

  KeyBlocks const* of_;
  DeviceLists forward_, backward_queries_, backward_keys_;
};

}  // namespace gpt::gpu
