// SPDX-License-Identifier: Apache-2.0
#include "simulate/mirrored_ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "zeroth/core/dtype.hpp"

namespace zeroth::simulate {

void exchange_with_mirrors(comm::Collective const& collective, int world, int addends) {
  auto const bytes = static_cast<std::size_t>(collective.count * bytes_of(collective.dtype));
  if (collective.operation == comm::Operation::all_gather) {
    auto* const output = static_cast<std::byte*>(collective.output);
    for (int rank = 0; rank < world; ++rank) {
      std::memmove(output + static_cast<std::size_t>(rank) * bytes, collective.input, bytes);
    }
  } else if (collective.operation == comm::Operation::all_reduce && collective.dtype == Dtype::fp64) {
    auto const* const input = static_cast<double const*>(collective.input);
    std::transform(input, input + collective.count, static_cast<double*>(collective.output),
                   [addends](double value) { return value * addends; });
  }
}

}  // namespace zeroth::simulate
