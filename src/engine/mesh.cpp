// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/mesh.hpp"

#include "engine/planning.hpp"

namespace zeroth {

Mesh::Mesh(Job& job, Config const& config)
    : whole_{&job}, pipeline_{0, config.pipeline().stages}, place_{0, job.rank()} {
  auto const of_stage = engine::ranks_of_stage(config, job.world());
  if (pipeline_.size > 1) {
    place_ = {job.rank() / of_stage, job.rank() % of_stage};
    pipeline_.index = place_.stage;
    data_.emplace(job.split(place_.stage, place_.data, "data"));
    stages_.emplace(job.split(place_.data, place_.stage, "stages"));
  }
}

Mesh::~Mesh() = default;

}  // namespace zeroth
