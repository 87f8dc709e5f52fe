// SPDX-License-Identifier: Apache-2.0
#include "engine/channels.hpp"

namespace zeroth::engine {
namespace {

constexpr int gradients_received = 2;  // in use, and ahead

}  // namespace

std::int64_t ChannelSizes::bytes() const noexcept {
  // Inputs in use, one ahead, and the gradient of one; the output, and gradients of it.
  return (input_count * (in_flight + 2) + output_count * (1 + gradients_received)) * bytes_of(dtype);
}

Channels::Channels(Job& stages, device::Device& device, ChannelSizes const& sizes)
    : sizes_{sizes},
      first_output_{sizes.input_count * (sizes.in_flight + 1)},
      first_output_gradient_{first_output_ + sizes.output_count},
      first_input_gradient_{first_output_gradient_ + sizes.output_count * gradients_received},
      memory_{device.allocate(device::Category::slots, sizes.bytes())} {
  // Neighbours make pairs: first those that begin with an even stage, then the others.
  for (int const parity : {0, 1}) {
    for (bool const goes_down : {true, false}) {
      auto pair = stages.split((stages.rank() + parity) / 2, stages.rank(), goes_down ? "down" : "up");
      if (pair.world() == 1) {
        continue;
      }
      bool const is_lower = pair.rank() == 0;
      auto& channel = is_lower ? (goes_down ? to_next_ : from_next_) : (goes_down ? from_before_ : to_before_);
      channel.pair.emplace(std::move(pair));
      channel.peer = is_lower ? 1 : 0;
      channel.messages.emplace(*channel.pair, goes_down ? "down" : "up");
    }
  }
}

Channels::~Channels() = default;

void Channels::set_options(comm::CommOptions const& options) {
  for (auto* const channel : {&from_before_, &to_next_, &from_next_, &to_before_}) {
    if (channel->messages) {
      channel->messages->communicator().set_options(options);
    }
  }
}

void Channels::start(Channel& channel, comm::Operation operation, std::byte* data, std::int64_t count,
                     std::string_view what) {
  comm::Collective message{.operation = operation, .count = count, .dtype = sizes_.dtype, .peer = channel.peer};
  if (operation == comm::Operation::send) {
    message.input = data;
  } else {
    message.output = data;
  }
  channel.under_way.emplace(channel.messages->start(message, what));
}

void Channels::settle(Channel& channel) {
  if (channel.under_way) {
    auto work = std::move(*channel.under_way);
    channel.under_way.reset();
    work.wait();
  }
}

template <class Slot>
void Channels::take(Channel& channel, int micro_step, std::int64_t count, std::string_view what, Slot const& slot) {
  if (!channel.messages) {
    return;
  }
  if (!channel.under_way) {  // the first one of a step
    start(channel, comm::Operation::receive, slot(micro_step), count, what);
  }
  settle(channel);
  if (micro_step + 1 < sizes_.micro_steps) {
    start(channel, comm::Operation::receive, slot(micro_step + 1), count, what);
  }
}

void Channels::begin(stage::Action const& action) {
  if (action.phase == Phase::forward) {
    take(from_before_, action.micro_step, sizes_.input_count, "activations", [this](int of) { return input(of); });
    settle(to_next_);
  } else {
    take(from_next_, action.micro_step, sizes_.output_count, "gradients",
         [this](int of) { return output_gradient(of); });
    settle(to_before_);
  }
}

void Channels::end(stage::Action const& action) {
  if (auto& channel = action.phase == Phase::forward ? to_next_ : to_before_; channel.messages) {
    bool const forward = action.phase == Phase::forward;
    start(channel, comm::Operation::send, forward ? output() : input_gradient(),
          forward ? sizes_.output_count : sizes_.input_count, forward ? "activations" : "gradients");
  }
}

std::byte* Channels::evaluation_input() {
  if (auto& channel = from_before_; channel.messages && !took_input_) {
    start(channel, comm::Operation::receive, input(0), sizes_.input_count, "activations");
    settle(channel);
    took_input_ = true;
  }
  return input(0);
}

std::byte* Channels::evaluation_output() {
  settle(to_next_);
  return output();
}

void Channels::end_evaluation_pass() {
  static_cast<void>(evaluation_input());  // the next message is another pass's
  took_input_ = false;
  if (to_next_.messages) {
    start(to_next_, comm::Operation::send, output(), sizes_.output_count, "activations");
  }
}

std::byte* Channels::input(int micro_step) noexcept {
  return at(sizes_.input_count * (micro_step % (sizes_.in_flight + 1)));
}

std::byte* Channels::output_gradient(int micro_step) noexcept {
  return at(first_output_gradient_ + sizes_.output_count * (micro_step % gradients_received));
}

}  // namespace zeroth::engine
