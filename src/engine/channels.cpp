// SPDX-License-Identifier: Apache-2.0
#include "engine/channels.hpp"

#include <utility>

namespace zeroth::engine {

Channels::Channels(comm::Communicator& stages, device::Device& device, ChannelSizes const& sizes,
                   std::vector<Boundary> boundaries)
    : sizes_{sizes},
      boundaries_{std::move(boundaries)},
      device_{&device},
      first_output_{sizes.input_count * sizes.inputs},
      first_output_gradient_{first_output_ + sizes.output_count},
      first_input_gradient_{first_output_gradient_ + sizes.output_count * sizes.gradients},
      memory_{device.allocate(device::Category::slots, sizes.bytes())} {
  // Neighbours form pairs: those that begin with an even stage, those that begin with an odd one, and the two ends.
  auto const last = stages.world() - 1;
  auto const tail_of = [&](int parity) { return stages.rank() % 2 == parity ? stages.rank() : stages.rank() - 1; };
  bool const is_ring = all_chunks() > stages.world();
  for (bool const goes_down : {true, false}) {
    for (int const parity : {0, 1}) {
      connect(stages, tail_of(parity), goes_down);
    }
    if (is_ring) {
      connect(stages, stages.rank() == 0 ? last : stages.rank(), goes_down);
    }
  }
}

Channels::~Channels() = default;

/// `tail`: the earlier stage of this rank's pair. A tail without a successor is alone in its communicator.
void Channels::connect(comm::Communicator& stages, int tail, bool goes_down) {
  auto const* const direction = goes_down ? "down" : "up";
  auto pair = stages.split(tail + 1, stages.rank() == tail ? 0 : 1, direction);
  if (pair->world() == 1) {
    return;
  }
  bool const is_first = pair->rank() == 0;
  auto& channel = is_first ? (goes_down ? to_next_ : from_next_) : (goes_down ? from_before_ : to_before_);
  channel.pair = std::move(pair);
  channel.end = device_->make_event();
  channel.stream = device_->make_stream(channel.name, device::Overlap::on);
}

void Channels::set_options(comm::CommOptions const& options) {
  for (auto* const channel : channels()) {
    if (channel->pair) {
      channel->pair->set_options(options);
    }
  }
}

void Channels::start(Channel& channel, comm::Operation operation, std::byte* data, int chunk, bool forward) {
  auto const& [count, unit] = boundaries_[static_cast<std::size_t>(chunk)];
  std::string_view const what = forward ? "activations" : "gradients";
  comm::Collective message{
      .operation = operation, .count = count, .dtype = sizes_.dtype, .peer = 1 - channel.pair->rank()};
  bool const sends = operation == comm::Operation::send;
  if (sends) {
    message.input = data;
  } else {
    message.output = data;
  }
  device_->compute().record(*channel.end);
  channel.stream->wait(*channel.end);
  {
    device::SpanScope const span{*channel.stream, sends ? "send" : "receive", unit};
    channel.pair->submit(*channel.stream, {what, unit}, {&message, 1});
  }
  channel.stream->record(*channel.end);
  channel.under_way = true;
}

void Channels::settle(Channel& channel) {
  if (std::exchange(channel.under_way, false)) {
    auto& compute = device_->compute();
    auto const before = compute.waited_ms();
    compute.wait(*channel.end);
    waited_ms_ += compute.waited_ms() - before;
  }
}

void Channels::receive(Channel& channel, Script const& script, std::size_t index) {
  auto const& action = script.actions[index];
  bool const forward = action.phase == Phase::forward;
  start(channel, comm::Operation::receive, forward ? input(script, index) : output_gradient(script, index),
        action.chunk + (forward ? 0 : 1), forward);
}

Channels::Channel* Channels::outgoing(stage::Action const& action) noexcept {
  if (action.phase == Phase::forward) {
    return action.chunk + 1 < all_chunks() ? &to_next_ : nullptr;
  }
  return action.phase != Phase::backward_weights && action.chunk > 0 ? &to_before_ : nullptr;
}

void Channels::begin(Script const& script, std::size_t index) {
  auto const& action = script.actions[index];
  if (bool const forward = stage::reads_input(action); forward || stage::reads_gradient(action, all_chunks())) {
    auto& channel = forward ? from_before_ : from_next_;
    if (!channel.under_way) {  // only for the first message; others are received ahead
      receive(channel, script, index);
    }
    settle(channel);
    if (auto const next = script.slots.reads_next[index]; next < script.actions.size()) {
      receive(channel, script, next);
    }
  }
  if (auto* const channel = outgoing(action)) {
    settle(*channel);
  }
}

void Channels::end(Script const& script, std::size_t index) {
  auto const& action = script.actions[index];
  if (auto* const channel = outgoing(action)) {
    bool const forward = action.phase == Phase::forward;
    start(*channel, comm::Operation::send, forward ? output() : input_gradient(), action.chunk + (forward ? 1 : 0),
          forward);
  }
}

void Channels::synchronize() {
  for (auto* const channel : channels()) {
    if (channel->stream) {
      channel->stream->synchronize();
    }
  }
}

std::byte* Channels::evaluation_input(int chunk) {
  if (chunk > 0 && !took_input_) {
    start(from_before_, comm::Operation::receive, at(0), chunk, true);
    settle(from_before_);
    took_input_ = true;
  }
  return at(0);
}

std::byte* Channels::evaluation_output() {
  settle(to_next_);
  return output();
}

void Channels::end_evaluation_pass(int chunk) {
  static_cast<void>(evaluation_input(chunk));  // receives it if the pass did not: the next message belongs to another
                                               // pass
  took_input_ = false;
  if (chunk + 1 < all_chunks()) {
    start(to_next_, comm::Operation::send, output(), chunk + 1, true);
  }
}

}  // namespace zeroth::engine
