// SPDX-License-Identifier: Apache-2.0
#include "comm/local/local_share.hpp"

#include <algorithm>
#include <cstddef>

#include "core/bytes_at.hpp"
#include "device/rank_fold.hpp"

namespace zeroth::comm {
namespace {

constexpr std::int64_t cache_line_bytes = 64;

struct Slice {
  std::int64_t first, count;
};

/// A rank's part of `count` elements: whole cache lines, about as many for each rank.
Slice slice_of(std::int64_t count, Dtype dtype, int rank, int world) noexcept {
  std::int64_t const line = cache_line_bytes / bytes_of(dtype);
  std::int64_t const lines = count / line / world + 1;
  std::int64_t const first = std::min(count, rank * lines * line);
  return {first, std::min(lines * line, count - first)};
}

}  // namespace

LocalShare::LocalShare(int rank, int world)
    : rank_{rank}, world_{world}, inputs_(static_cast<std::size_t>(world)), outputs_(static_cast<std::size_t>(world)) {}

void LocalShare::run(std::span<Collective const* const> all, device::PeerStream* stream) {
  stream_ = stream;
  Collective const& mine = *all[static_cast<std::size_t>(rank_)];
  if (mine.count == 0) {
    return;
  }
  std::int64_t const bytes = mine.count * bytes_of(mine.dtype);
  auto const root = [&]() -> Collective const& { return *all[static_cast<std::size_t>(mine.peer)]; };
  switch (mine.operation) {
    case Operation::all_reduce:
    case Operation::reduce_scatter:
    case Operation::reduce: return reduce(all);
    case Operation::all_gather: return gather_blocks(all);
    case Operation::all_to_all: return exchange_blocks(all);
    case Operation::broadcast: return broadcast(all);
    case Operation::gather: return copy(bytes_at(root().output, rank_ * bytes), mine.input, bytes);
    case Operation::scatter: return copy(mine.output, bytes_at(root().input, rank_ * bytes), bytes);
    case Operation::send:
    case Operation::receive:
    case Operation::barrier: return;
  }
}

/// Folds the inputs of all ranks.
void LocalShare::fold(Collective const& mine, void* const* outputs, int output_count, std::int64_t first,
                      std::int64_t count) const {
  if (stream_ != nullptr) {
    return stream_->fold(mine.reduce, outputs, output_count, inputs_.data(), world_, mine.dtype, first, count,
                         mine.factor);
  }
  device::rank_fold(mine.reduce, outputs, output_count, inputs_.data(), world_, mine.dtype, first, count, mine.factor);
}

void LocalShare::copy(void* destination, void const* source, std::int64_t bytes) const {
  if (stream_ != nullptr) {
    return stream_->copy(destination, source, bytes);
  }
  device::copy_bytes(destination, source, bytes);
}

void LocalShare::copy_to_all(std::span<void* const> destinations, void const* source, std::int64_t bytes) const {
  if (stream_ == nullptr) {
    return device::copy_to_all(destinations, source, bytes);
  }
  for (auto* const destination : destinations) {
    stream_->copy(destination, source, bytes);
  }
}

/// Folds one slice of every rank's input, once, into every output that needs it.
void LocalShare::reduce(std::span<Collective const* const> all) {
  Collective const& mine = *all[static_cast<std::size_t>(rank_)];
  std::transform(all.begin(), all.end(), inputs_.begin(), [](Collective const* each) { return each->input; });
  if (mine.operation == Operation::reduce_scatter) {
    // reduce_scatter counts elements from the start of the input, and the output begins at this rank's block of it.
    std::int64_t const first = rank_ * mine.count;
    std::int64_t const offset = first * bytes_of(mine.dtype);
    std::transform(inputs_.begin(), inputs_.end(), inputs_.begin(),
                   [offset](void const* input) { return bytes_at(input, offset); });
    if (mine.sums != nullptr) {
      return stream_ != nullptr
                 ? stream_->sum_into(mine.sums, mine.accumulate, inputs_.data(), world_, mine.dtype, mine.count)
                 : device::rank_fold_into(mine.sums, mine.accumulate, inputs_.data(), world_, mine.dtype, mine.count);
    }
    return fold(mine, &mine.output, 1, 0, mine.count);
  }
  bool const to_all = mine.operation == Operation::all_reduce;
  std::transform(all.begin(), all.end(), outputs_.begin(), [](Collective const* each) { return each->output; });
  void* const* outputs = to_all ? outputs_.data() : &outputs_[static_cast<std::size_t>(mine.peer)];
  auto const [first, count] = slice_of(mine.count, mine.dtype, rank_, world_);
  fold(mine, outputs, to_all ? world_ : 1, first, count);
}

/// Stores this rank's block in every output. The block is read once; if ranks fetched the others' blocks, every rank
/// would read each of them again.
void LocalShare::gather_blocks(std::span<Collective const* const> all) {
  Collective const& mine = *all[static_cast<std::size_t>(rank_)];
  std::int64_t const bytes = mine.count * bytes_of(mine.dtype);
  for (int i = 0; i < world_; ++i) {  // each rank starts at another one
    auto const* const to = all[static_cast<std::size_t>((rank_ + i) % world_)];
    outputs_[static_cast<std::size_t>(i)] = bytes_at(to->output, rank_ * bytes);
  }
  // If in place, this rank has its own block already.
  bool const in_place = outputs_[0] == mine.input;
  copy_to_all(std::span{outputs_}.subspan(in_place ? 1 : 0), mine.input, bytes);
}

void LocalShare::exchange_blocks(std::span<Collective const* const> all) {
  Collective const& mine = *all[static_cast<std::size_t>(rank_)];
  std::int64_t const bytes = mine.count * bytes_of(mine.dtype);
  for (int i = 0; i < world_; ++i) {
    int const from = (rank_ + i) % world_;
    copy(bytes_at(mine.output, from * bytes), bytes_at(all[static_cast<std::size_t>(from)]->input, rank_ * bytes),
         bytes);
  }
}

void LocalShare::broadcast(std::span<Collective const* const> all) {
  Collective const& mine = *all[static_cast<std::size_t>(rank_)];
  void const* const input = all[static_cast<std::size_t>(mine.peer)]->input;
  auto const [first, count] = slice_of(mine.count, mine.dtype, rank_, world_);
  std::int64_t const offset = first * bytes_of(mine.dtype);
  std::transform(all.begin(), all.end(), outputs_.begin(),
                 [offset](Collective const* each) { return bytes_at(each->output, offset); });
  copy_to_all(outputs_, bytes_at(input, offset), count * bytes_of(mine.dtype));
}

}  // namespace zeroth::comm
