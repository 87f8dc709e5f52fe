// SPDX-License-Identifier: Apache-2.0
#include "zeroth/parallel/tensor.hpp"

#include <fmt/format.h>

#include "zeroth/core/error.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

TensorParallel::TensorParallel(Job& tensor, TensorParallelOptions const& options)
    : index_{tensor.rank()},
      ranks_{tensor.world()},
      sequence_{options.sequence && ranks_ > 1},
      on_host_{tensor.make_device()->has_host_memory()} {
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
                 fmt::format("{} after {}, which ended without wait(): its result is complete only after wait()", verb,
                             forgotten_));
}

Collectives::Work TensorParallel::start_one(comm::Collective const& collective, char const* verb) {
  return collectives_->start(collective, verb);
}

Collectives::Work TensorParallel::start(std::span<comm::Collective const> collectives, char const* what) {
  expect_waited(what);
  ZEROTH_EXPECTS(ranks_ > 1, fmt::format("start() of \"{}\" with one tensor rank: there is no other rank", what));
  return collectives_->start(collectives, what);
}

}  // namespace zeroth
