// SPDX-License-Identifier: Apache-2.0
#include "simulate/tensor_sums.hpp"

#include <utility>
#include <vector>

namespace zeroth::simulate {

using comm::Operation;

TensorSums::TensorSums(std::unique_ptr<comm::Communicator> tensor, VirtualDevice& device, bool sequence, Dtype dtype)
    : tensor_{std::move(tensor)},
      device_{device},
      sequence_{sequence},
      dtype_{dtype},
      stream_{device.make_stream("tensor", device::Overlap::on)},
      ready_{device.make_event()},
      over_{device.make_event()} {}

void TensorSums::start(std::span<TensorVerb const> verbs, double elements, comm::Label const& label) {
  auto const whole = static_cast<std::int64_t>(elements);
  std::vector<comm::Collective> collectives;
  for (auto const verb : verbs) {
    if (auto const count = sequence_ ? whole / tensor_->world() : whole;
        count > 0 && (sequence_ || verb == TensorVerb::add_up)) {
      collectives.push_back({.operation = verb == TensorVerb::spread ? Operation::all_gather
                                          : sequence_                ? Operation::reduce_scatter
                                                                     : Operation::all_reduce,
                             .input = VirtualDevice::unreal_address(),
                             .output = VirtualDevice::unreal_address(),
                             .count = count,
                             .dtype = dtype_});
    }
  }
  if (!collectives.empty()) {
    device_.compute().record(*ready_);
    stream_->wait(*ready_);
    stream_->begin_span("sum", label.unit);
    tensor_->submit(*stream_, label, collectives);
    stream_->end_span();
  }
}

void TensorSums::wait() {
  auto& compute = device_.compute();
  double const before = compute.start();
  stream_->record(*over_);
  compute.wait(*over_);
  waited_us_ += compute.start() - before;
}

}  // namespace zeroth::simulate
