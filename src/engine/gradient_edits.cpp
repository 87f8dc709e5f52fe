// SPDX-License-Identifier: Apache-2.0
#include "engine/gradient_edits.hpp"

#include <algorithm>

namespace zeroth::engine {
namespace {

using Edit = std::function<void(ReducedGradient const&)>;

/// The gradients of this rank's elements of a flat unit, as the update will read them.
class Edited {
 public:
  Edited(shard::Memory& memory, shard::FlatId flat)
      : memory_{&memory}, flat_{flat}, at_{memory.addresses(flat)}, held_{memory.optimized(flat)} {}

  void edit(double scale, Edit const& edit) const {
    for (auto const& placed : memory_->flat(flat_).trainable.params) {
      auto const& param = memory_->model().params[placed.param];
      auto const begin = std::max(held_.begin, placed.offset) - placed.offset;
      auto const end = std::min(held_.end, placed.offset + placed.count) - placed.offset;
      auto const show = [&](std::int64_t first, std::int64_t count) {
        edit({param.name, first, count, element(placed.offset + first), at_.reduced_dtype, scale});
      };
      if (begin >= end) {
        continue;
      }
      if (!param.part) {
        show(begin, end - begin);
        continue;
      }
      param.part->each_run(begin, end - begin, [&](model::CutPart::Run const& run) {
        if (!run.is_padding()) {  // padding has no gradient
          show(run.first, run.count);
        }
      });
    }
  }
  /// Sums the squares that this rank counts again.
  void sum_squares() const {
    if (at_.block_sums == nullptr) {
      return;
    }
    auto const slice = memory_->flat(flat_).trainable.slice(memory_->place());
    memory_->kernels().reduce_epilogue(reduce(), {.source = element(slice.begin),
                                                  .source_dtype = at_.reduced_dtype,
                                                  .destination = element(slice.begin),
                                                  .destination_dtype = at_.reduced_dtype,
                                                  .count = slice.count(),
                                                  .block_sums = at_.block_sums,
                                                  .sums_count = slice.count()});
  }
  /// A delayed update reads a copy.
  void delay() const {
    if (at_.delayed != nullptr) {
      memory_->kernels().copy(reduce(), at_.delayed, at_.reduced, held_.count() * bytes_of(at_.reduced_dtype));
    }
  }

 private:
  [[nodiscard]] std::byte* element(std::int64_t of_part) const noexcept {
    return at_.reduced + (of_part - held_.begin) * bytes_of(at_.reduced_dtype);
  }
  [[nodiscard]] device::Stream& reduce() const noexcept { return memory_->stream(shard::Lane::reduce); }

  shard::Memory* memory_;
  shard::FlatId flat_;
  shard::Memory::Addresses at_;
  shard::Range held_;
};

}  // namespace

void edit_gradients(shard::ShardManager& manager, double scale, Edit const& edit) {
  auto& memory = manager.memory;
  memory.stream(shard::Lane::reduce).synchronize();
  for (auto const flat : memory.layout().update_order()) {
    Edited{memory, flat}.edit(scale, edit);
  }
  memory.compute().synchronize();
  for (auto const flat : memory.layout().update_order()) {
    Edited const edited{memory, flat};
    edited.sum_squares();
    edited.delay();
  }
}

}  // namespace zeroth::engine
