// SPDX-License-Identifier: Apache-2.0
#include "shard/tied_sums.hpp"

#include <algorithm>

namespace zeroth::shard {
namespace {

/// Maximum elements that stages exchange at a time: the scratch memory is small compared to a slice of a parameter
/// worth tying.
constexpr std::int64_t most_in_piece = std::int64_t{1} << 20U;

std::int64_t summed_count(FlatUnit const& flat, PlanRequest const& request) noexcept {
  return held(flat.trainable, request.placements.optimizer, request.places, 0).count();
}

std::int64_t piece_count_of(Layout const& layout, PlanRequest const& request) noexcept {
  std::int64_t most = 0;
  for (auto const& tie : layout.ties()) {
    most = std::max(most, tie.stages.size() > 1 ? summed_count(layout.flats()[tie.flat], request) : 0);
  }
  return std::min(most, most_in_piece);
}

/// How often stages exchange a use's sum. Each stage has one in the first round; in later rounds fewer have one.
std::int64_t rounds_of(Tie const& tie) noexcept {
  std::int64_t rounds = 0;
  for (auto const stage : tie.stages) {
    rounds = std::max(rounds, std::int64_t{std::ranges::count(tie.uses, stage, &Tie::Use::stage)});
  }
  return rounds;
}

}  // namespace

std::int64_t TiedSums::scratch_bytes(Layout const& layout, PlanRequest const& request) noexcept {
  std::int64_t most = 0;
  for (auto const& tie : layout.ties()) {
    most = std::max(most, tie.stages.size() > 1 ? rounds_of(tie) * std::ssize(tie.stages) : 0);
  }
  // In-place sums have the gradient's dtype, and so do all sums then.
  std::int64_t widest = 0;
  for (auto const& tie : layout.ties()) {
    widest = std::max(widest, bytes_of(precision_of(layout.flats()[tie.flat], request.settings).accumulate));
  }
  return most * piece_count_of(layout, request) * widest;
}

TiedSums::TiedSums(Memory& memory) : memory_{&memory}, piece_count_{piece_count_of(memory.layout(), memory.request())} {
  std::size_t most = 0;
  for (auto const& tie : memory.layout().ties()) {
    most = std::max(most, tie.uses.size());
  }
  terms_.reserve(most);  // no step allocates
  transaction_.reserve(most);
}

void TiedSums::run() {
  auto const ties = memory_->layout().ties();
  for (std::size_t t = 0; t < ties.size(); ++t) {
    device::SpanScope const span{memory_->stream(Lane::reduce), "add ties", memory_->flat(ties[t].flat).name};
    auto* const among = memory_->context().ties[t];
    auto const all = memory_->summed(ties[t].flat).count();
    auto const most = among == nullptr ? all : piece_count_;
    for (std::int64_t first = 0; first < all; first += most) {
      Range const piece{first, std::min(first + most, all)};
      if (among == nullptr) {
        find_terms(ties[t], piece);
      } else {
        exchange(ties[t], piece, *among);
      }
      add_up(ties[t].flat, piece);
    }
    leave_block_sums(ties[t].flat);
  }
}

std::byte* TiedSums::sum_of(FlatId flat, std::int64_t first) const noexcept {
  auto const at = memory_->addresses(flat);
  return at.reduced + first * bytes_of(at.reduced_dtype);
}

/// Collects the terms if all uses are on this stage.
void TiedSums::find_terms(Tie const& tie, Range piece) {
  terms_.clear();
  for (auto const& use : tie.uses) {
    terms_.push_back(sum_of(use.flat, piece.begin));
  }
}

/// Sends a piece of each use's sum to all stages that have the parameter, into scratch: round by round, stage by stage.
void TiedSums::exchange(Tie const& tie, Range piece, comm::Communicator& among) {
  auto const stages = std::ssize(tie.stages);
  auto const dtype = memory_->addresses(tie.flat).reduced_dtype;
  auto const bytes = piece.count() * bytes_of(dtype);
  terms_.clear();
  transaction_.clear();
  for (std::size_t use = 0; use < tie.uses.size(); ++use) {
    auto const [stage, flat] = tie.uses[use];
    auto const round = std::count_if(tie.uses.begin(), tie.uses.begin() + static_cast<std::ptrdiff_t>(use),
                                     [of = stage](Tie::Use const& before) { return before.stage == of; });
    auto const at = std::ranges::lower_bound(tie.stages, stage) - tie.stages.begin();
    terms_.push_back(memory_->tied() + (round * stages + at) * bytes);
    if (stage == memory_->layout().stage()) {
      tell(sum_of(flat, piece.begin), piece.count(), dtype);
    }
  }
  while (std::ssize(transaction_) < rounds_of(tie)) {  // others have more uses: send a dummy that none reads
    tell(sum_of(tie.flat, piece.begin), piece.count(), dtype);
  }
  for (auto& each : transaction_) {
    each.output = memory_->tied() + (&each - transaction_.data()) * stages * bytes;
    moved_.add(stages * bytes, false);
  }
  among.submit(memory_->stream(Lane::reduce), {"add ties", memory_->flat(tie.flat).name}, transaction_);
  memory_->note_call("add ties", tie.flat, transaction_, among);
}

void TiedSums::tell(std::byte const* sum, std::int64_t count, Dtype dtype) {
  transaction_.push_back(
      {.operation = comm::Operation::all_gather, .input = sum, .output = nullptr, .count = count, .dtype = dtype});
}

/// Adds the terms into what the optimizer reads, in the order of units.
void TiedSums::add_up(FlatId flat, Range piece) {
  auto const dtype = memory_->addresses(flat).reduced_dtype;
  auto const bring = [&](std::byte* to, std::byte const* from, bool adds) {
    memory_->kernels().reduce_epilogue(memory_->stream(Lane::reduce), {.source = from,
                                                                       .source_dtype = dtype,
                                                                       .destination = to,
                                                                       .destination_dtype = dtype,
                                                                       .count = piece.count(),
                                                                       .accumulate = adds});
  };
  for (std::size_t use = 1; use < terms_.size(); ++use) {
    bring(terms_.front(), terms_[use], true);
  }
  if (auto* const read = sum_of(flat, piece.begin); read != terms_.front()) {
    bring(read, terms_.front(), false);
  }
}

void TiedSums::leave_block_sums(FlatId flat) {
  auto const at = memory_->addresses(flat);
  if (at.block_sums == nullptr) {
    return;
  }
  auto const slice = memory_->flat(flat).trainable.slice(memory_->place());
  auto* const sums = sum_of(flat, slice.begin - memory_->summed(flat).begin);
  memory_->kernels().reduce_epilogue(memory_->stream(Lane::reduce), {.source = sums,
                                                                     .source_dtype = at.reduced_dtype,
                                                                     .destination = sums,
                                                                     .destination_dtype = at.reduced_dtype,
                                                                     .count = slice.count(),
                                                                     .block_sums = at.block_sums,
                                                                     .sums_count = slice.count()});
}

}  // namespace zeroth::shard
