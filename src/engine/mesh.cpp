// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "zeroth/core/error.hpp"

namespace zeroth {

Mesh::Mesh(Job& job, Config const& config)
    : whole_{&job}, pipeline_{0, config.pipeline().stages}, place_{0, job.rank()} {
  auto const stages = pipeline_.size;
  auto const world = job.world();
  if (world % stages != 0) {
    std::vector<int> allowed;
    for (int count = 1; count <= world; ++count) {
      if (world % count == 0) {
        allowed.push_back(count);
      }
    }
    throw ConfigError{fmt::format("{}: zeroth.mesh.pipeline is {}, which does not divide {} ranks; allowed: {}",
                                  config.source(), stages, world, fmt::join(allowed, ", "))};
  }
  if (stages > 1) {
    auto const of_stage = world / stages;
    place_ = {job.rank() / of_stage, job.rank() % of_stage};
    pipeline_.index = place_.stage;
    data_.emplace(job.split(place_.stage, place_.data, "data"));
    stages_.emplace(job.split(place_.data, place_.stage, "stages"));
  }
}

Mesh::~Mesh() = default;

}  // namespace zeroth
