// SPDX-License-Identifier: Apache-2.0
#include "simulate/seats.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

constexpr std::size_t at(MeshAxis axis) { return static_cast<std::size_t>(axis); }

}  // namespace

Seats::Seats(std::array<int, 3> const& sizes, Nearness const& nearness) : sizes_{sizes} {
  int stride = 1;
  for (auto const axis : nearness) {
    ZEROTH_EXPECTS(std::ranges::count(nearness, axis) == 1,
                   fmt::format("simulate: nearness {}, {}, {}: each axis must be there once", name_of(nearness[0]),
                               name_of(nearness[1]), name_of(nearness[2])));
    strides_[at(axis)] = stride;
    stride *= sizes[at(axis)];
  }
}

int Seats::of(int rank) const noexcept {
  auto const tensor = sizes_[at(MeshAxis::tensor)], data = sizes_[at(MeshAxis::data)];
  return rank % tensor * strides_[at(MeshAxis::tensor)] + rank / tensor % data * strides_[at(MeshAxis::data)] +
         rank / tensor / data * strides_[at(MeshAxis::pipeline)];
}

}  // namespace zeroth::simulate
