// SPDX-License-Identifier: Apache-2.0
#include "batches.hpp"

#include <fmt/format.h>

#include <bit>

#include <zeroth/core/error.hpp>

namespace gpt {

namespace {

/// Spreads every bit of `value` over all of the result (the finaliser of SplitMix64, Steele et al. 2014).
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

}  // namespace

Permutation::Permutation(std::uint64_t count, std::uint64_t key) noexcept
    : count_{count}, key_{key}, half_bits_{(static_cast<unsigned>(std::bit_width(count)) + 1) / 2} {}

std::uint64_t Permutation::operator()(std::uint64_t index) const noexcept {
  constexpr std::uint64_t rounds = 8;
  std::uint64_t const mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::uint64_t const next = left ^ (mix(mix(key_ + round) + right) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= count_);
  return index;
}

Batches::Batches(Corpus const& corpus, std::int64_t context, Order order, std::uint64_t seed)
    : corpus_{&corpus}, context_{context}, sequences_{(corpus.size() - 1) / context}, order_{order}, seed_{seed} {
  if (sequences_ < 1) {
    throw zeroth::ConfigError{fmt::format("--data {}: has {} bytes, and one sequence of --context {} takes {}",
                                          corpus.path().string(), corpus.size(), context, context + 1)};
  }
}

std::int64_t Batches::sequence_of(std::int64_t sample) const noexcept {
  auto const place = sample % sequences_;
  if (order_ == Order::sequential) {
    return place;
  }
  auto const epoch = static_cast<std::uint64_t>(sample / sequences_);
  Permutation const permutation{static_cast<std::uint64_t>(sequences_), mix(mix(seed_) + epoch)};
  return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(place)));
}

void Batches::read(std::int64_t first_sample, std::int64_t rows, Batch& batch) const {
  batch.inputs.clear();
  batch.targets.clear();
  batch.sequence.resize(static_cast<std::size_t>(context_) + 1);
  for (auto sample = first_sample; sample < first_sample + rows; ++sample) {
    corpus_->read(sequence_of(sample) * context_, batch.sequence);
    batch.inputs.insert(batch.inputs.end(), batch.sequence.begin(), batch.sequence.end() - 1);
    batch.targets.insert(batch.targets.end(), batch.sequence.begin() + 1, batch.sequence.end());
  }
}

}  // namespace gpt
