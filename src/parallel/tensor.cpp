// SPDX-License-Identifier: Apache-2.0
#include "zeroth/parallel/tensor.hpp"

#include <fmt/format.h>

#include "zeroth/core/error.hpp"

namespace zeroth {

TensorParallel::TensorParallel(Job& tensor, TensorParallelOptions const& options)
    : index_{tensor.rank()}, ranks_{tensor.world()}, sequence_{options.sequence && ranks_ > 1} {
  if (ranks_ > 1) {
    collectives_.emplace(tensor, "tensor-verbs", options.comm);
  }
}

TensorParallel::~TensorParallel() = default;

std::int64_t TensorParallel::rows_of_rank(std::int64_t rows) const {
  ZEROTH_EXPECTS(rows % ranks_ == 0,
                 fmt::format("sequence parallelism over {} rows: {} tensor ranks do not divide them; nearest: {} or {}",
                             rows, ranks_, rows / ranks_ * ranks_, (rows / ranks_ + 1) * ranks_));
  return rows / ranks_;
}

void TensorParallel::expect_waited(char const* verb) {
  ZEROTH_EXPECTS(forgotten_ == nullptr,
                 fmt::format("{} after {}, which ended without wait(): what a verb gives is there behind its wait()",
                             verb, forgotten_));
}

Collectives::Work TensorParallel::start(comm::Collective const& collective, char const* verb) {
  return collectives_->start(collective, verb);
}

}  // namespace zeroth
