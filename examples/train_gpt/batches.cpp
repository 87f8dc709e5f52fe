// SPDX-License-Identifier: Apache-2.0
#include "batches.hpp"

#include <fmt/format.h>

#include <zeroth/core/error.hpp>

namespace gpt {

namespace {

std::int64_t sequences_in(Corpus const& corpus, std::int64_t context) {
  auto const sequences = (corpus.size() - 1) / context;
  if (sequences < 1) {
    throw zeroth::ConfigError{fmt::format("--data {}: has {} bytes, but one sequence of --context {} takes {}",
                                          corpus.path().string(), corpus.size(), context, context + 1)};
  }
  return sequences;
}

}  // namespace

Batches::Batches(Corpus const& corpus, std::int64_t context, Order order, std::uint64_t seed)
    : corpus_{&corpus},
      context_{context},
      order_{sequences_in(corpus, context),
             {.seed = seed, .shuffled = order == Order::shuffled, .fingerprint = corpus.fingerprint()}} {}

void Batches::read(std::int64_t first_sample, std::int64_t rows, Batch& batch) const {
  batch.inputs.clear();
  batch.targets.clear();
  batch.sequence.resize(static_cast<std::size_t>(context_) + 1);
  for (auto sample = first_sample; sample < first_sample + rows; ++sample) {
    corpus_->read(order_[sample] * context_, batch.sequence);
    batch.inputs.insert(batch.inputs.end(), batch.sequence.begin(), batch.sequence.end() - 1);
    batch.targets.insert(batch.targets.end(), batch.sequence.begin() + 1, batch.sequence.end());
  }
}

}  // namespace gpt
