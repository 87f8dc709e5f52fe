// SPDX-License-Identifier: Apache-2.0
#include "zeroth/engine/mesh.hpp"

#include "comm/launch/job_state.hpp"
#include "engine/planning.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth {

Mesh::Mesh(Job& job, Config const& config)
    : whole_{&job}, pipeline_{0, config.pipeline().stages}, tensor_part_{0, config.tensor_ranks()} {
  auto const workers = engine::data_ranks(config, job.world());
  auto const data = config.parameter_server().servers > 0 ? job.world() : workers;
  auto const parts = tensor_part_.of;
  place_ = {job.rank() / parts / data, job.rank() / parts % data, job.rank() % parts};
  pipeline_.index = place_.stage;
  tensor_part_.index = place_.tensor;
  tensor_.emplace(parts == 1 ? detail::JobState::of(job).alone()
                             : job.split(job.rank() / parts, place_.tensor, "tensor"));
  if (pipeline_.size * parts > 1) {
    data_.emplace(job.split(place_.stage * parts + place_.tensor, place_.data, "data"));
  }
  if (pipeline_.size > 1) {
    stages_.emplace(job.split(place_.data * parts + place_.tensor, place_.stage, "stages"));
  }
  if (parts > 1) {
    model_.emplace(job.split(place_.data, place_.stage * parts + place_.tensor, "model"));
    share_compute_stream();
  }
}

/// Only the compute stream orders operations of TensorParallel, so that on another stream they would race with the
/// engine's.
void Mesh::share_compute_stream() {
  auto& state = detail::JobState::of(*whole_);
  if (state.compute_stream) {
    return;  // the parts have it from the job
  }
  device_ = state.make_device();
  auto const stream = device_->compute().native();
  if (stream.native == nullptr) {
    device_.reset();
    return;  // compute is the rank's thread
  }
  data_->compute_on(stream);
  tensor_->compute_on(stream);
}

Mesh::~Mesh() = default;

}  // namespace zeroth
