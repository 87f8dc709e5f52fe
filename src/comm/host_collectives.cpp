// SPDX-License-Identifier: Apache-2.0
#include "comm/host_collectives.hpp"

#include <algorithm>

#include "comm/staging.hpp"
#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {

HostCollectives::HostCollectives(int rank, int world, Cut cut)
    : rank_{rank},
      world_{world},
      cut_{cut},
      small_(static_cast<std::size_t>(world * small_bytes)),
      inputs_(static_cast<std::size_t>(world)) {}

std::int64_t HostCollectives::staging_for(Collective const& collective, int world) noexcept {
  switch (collective.operation) {
    case Operation::all_reduce:
      return collective.count * bytes_of(collective.dtype) <= small_bytes
                 ? 0
                 : host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce: return host_staging_bytes(world, collective.dtype, collective.count);
    case Operation::reduce_scatter: return host_staging_bytes(world, collective.dtype, world * collective.count);
    default: return 0;
  }
}

void HostCollectives::run(Collective const& collective, std::span<std::byte> staging) {
  auto const& [operation, input, output, count, dtype, root, reduce, sums, accumulate, factor] = collective;
  if (operation != Operation::barrier && count == 0) {
    return;
  }
  std::int64_t const bytes = count * bytes_of(dtype);
  switch (operation) {
    case Operation::all_reduce: return all_reduce(collective, staging);
    case Operation::reduce_scatter:
      return fold_blocks(
          {bytes_at(input, 0), bytes_at(output, 0), bytes, count, reduce, dtype, -1, sums, accumulate, factor},
          staging);
    case Operation::reduce:
      return fold_blocks(
          {bytes_at(input, 0), bytes_at(output, 0), 0, count, reduce, dtype, root, nullptr, false, factor}, staging);
    case Operation::all_gather: return all_gather(input, bytes_at(output, 0), bytes);
    case Operation::send:
    case Operation::receive: return;
    default: return move(collective);
  }
}

/// Whole slices, one per rank, go by reduce-scatter and all-gather. The few elements left over go the way of small
/// reductions.
void HostCollectives::all_reduce(Collective const& collective, std::span<std::byte> staging) {
  std::int64_t const element = bytes_of(collective.dtype);
  bool const small = collective.count * element <= small_bytes;
  std::int64_t const slice = small ? 0 : collective.count / world_;
  if (slice > 0) {
    std::byte* const mine = bytes_at(collective.output, rank_ * slice * element);
    fold_blocks({bytes_at(collective.input, 0), mine, slice * element, slice, collective.reduce, collective.dtype, -1,
                 nullptr, false, collective.factor},
                staging);
    all_gather(mine, bytes_at(collective.output, 0), slice * element);
  }
  std::int64_t const step = small_bytes / element;
  for (std::int64_t first = slice * world_; first < collective.count; first += step) {
    all_reduce_small(collective, first, std::min(step, collective.count - first));
  }
}

void HostCollectives::all_reduce_small(Collective const& collective, std::int64_t first, std::int64_t count) {
  auto const element = bytes_of(collective.dtype);
  std::int64_t const bytes = count * element;
  all_gather(bytes_at(collective.input, first * element), small_.data(), bytes);
  for (int rank = 0; rank < world_; ++rank) {
    inputs_[static_cast<std::size_t>(rank)] = small_.data() + rank * bytes;
  }
  void* const output = bytes_at(collective.output, first * element);
  device::rank_fold(collective.reduce, &output, 1, inputs_.data(), world_, collective.dtype, 0, count,
                    collective.factor);
}

// ---- chunk by chunk, as the staging allows --------------------------------------------------------------------------

class HostCollectives::Chunks {
 public:
  Chunks(Blocks const& blocks, int world, Cut const& cut, std::byte* staging)
      : element_{bytes_of(blocks.dtype)}, world_{world}, count_{blocks.count}, staging_{staging} {
    std::int64_t const full_count = blocks.root < 0 ? world * blocks.count : blocks.count;
    std::int64_t const place_count = host_staging_bytes(world, blocks.dtype, full_count) / world / element_;
    std::int64_t const most = std::max<std::int64_t>(1, cut.most_part_bytes / element_);
    bool const whole = world == 1 || count_ <= std::min(place_count, most);
    chunk_count_ = whole ? count_ : std::min(most, std::max<std::int64_t>(1, place_count / 2));
    slots_ = whole ? 1 : std::min(cut.most_slots, place_count / chunk_count_);
  }

  [[nodiscard]] std::int64_t number() const noexcept { return (count_ + chunk_count_ - 1) / chunk_count_; }
  /// The number in flight at a time: each has its part of the staging.
  [[nodiscard]] std::int64_t slots() const noexcept { return slots_; }
  [[nodiscard]] Chunk operator[](std::int64_t index) const noexcept {
    std::int64_t const first = index * chunk_count_;
    auto const slot = static_cast<int>(index % slots_);
    std::int64_t const place_bytes = chunk_count_ * element_;
    return {first * element_,
            std::min(chunk_count_, count_ - first) * element_,
            staging_ + slot * world_ * place_bytes,
            place_bytes,
            slot,
            index + 1 == number()};
  }

 private:
  std::int64_t element_;
  std::int64_t world_, count_;
  std::byte* staging_;
  std::int64_t slots_ = 1, chunk_count_ = 1;
};

void HostCollectives::fold_blocks(Blocks const& blocks, std::span<std::byte> staging) {
  Chunks const chunks{blocks, world_, cut_, staging.data()};
  for (std::int64_t i = 0; i < std::min(chunks.slots(), chunks.number()); ++i) {
    start(blocks, chunks[i]);
  }
  give_blocks(blocks);
  for (std::int64_t i = 0; i < chunks.number(); ++i) {
    await(chunks[i]);
    if (blocks.receives(rank_)) {
      fold(blocks, chunks[i]);
    }
    release(chunks[i]);
    if (i + chunks.slots() < chunks.number()) {
      start(blocks, chunks[i + chunks.slots()]);
    }
  }
  end_blocks();
}

void HostCollectives::fold(Blocks const& blocks, Chunk const& chunk) {
  for (int from = 0; from < world_; ++from) {
    inputs_[static_cast<std::size_t>(from)] =
        from == rank_ ? blocks.block_for(rank_) + chunk.offset : part(chunk, from);
  }
  auto const element = bytes_of(blocks.dtype);
  if (blocks.sums != nullptr) {
    return device::rank_fold_into(blocks.sums + chunk.offset / element, blocks.accumulate, inputs_.data(), world_,
                                  blocks.dtype, chunk.bytes / element);
  }
  void* const output = blocks.output + chunk.offset;
  device::rank_fold(blocks.reduce, &output, 1, inputs_.data(), world_, blocks.dtype, 0, chunk.bytes / element,
                    blocks.factor);
}

}  // namespace zeroth::comm
