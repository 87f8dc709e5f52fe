// SPDX-License-Identifier: Apache-2.0
/// What the stages of a pipeline send each other, and the memory that it lies in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "stage/pipeline.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

/// What a rank's channels are made for.
struct ChannelSizes {
  std::int64_t input_count = 0;   ///< Elements of a message from the stage before; 0: there is none.
  std::int64_t output_count = 0;  ///< To the next one.
  Dtype dtype = Dtype::fp32;      ///< Of elements.
  int micro_steps = 1;            ///< Of a step.
  int in_flight = 1;              ///< See stage::in_flight().
  /// Of all slots.
  [[nodiscard]] std::int64_t bytes() const noexcept;
};

/// To and from both neighbours: one direction is a communicator of two ranks, a stream, and slots. Inputs stay until
/// backward has read them, and one more is received ahead; of gradients one is received ahead; what is sent has one
/// slot. An action begins once what it reads is there, and what it writes to has been sent: it waits for both.
class Channels {
 public:
  /// Collective on `stages`, the ranks at the same place of all stages, in order; waits. All outlive it.
  Channels(Job& stages, device::Device& device, ChannelSizes const& sizes);
  Channels(Channels const&) = delete;
  Channels& operator=(Channels const&) = delete;
  ~Channels();

  void set_options(comm::CommOptions const& options);
  /// Waits.
  void begin(stage::Action const& action);
  /// Sends what the action wrote.
  void end(stage::Action const& action);

  /// Of the action that is open. All but input() are there in one phase alone.
  [[nodiscard]] std::byte* input(int micro_step) noexcept;
  [[nodiscard]] std::byte* output() noexcept { return at(first_output_); }
  [[nodiscard]] std::byte* output_gradient(int micro_step) noexcept;
  [[nodiscard]] std::byte* input_gradient() noexcept { return at(first_input_gradient_); }

 private:
  /// Between this rank and a neighbour.
  struct Channel {
    std::optional<Job> pair;  ///< Empty: no neighbour.
    std::optional<Collectives> messages;
    std::optional<Collectives::Work> under_way;
    int peer = 0;
  };
  [[nodiscard]] std::byte* at(std::int64_t element) noexcept {
    return memory_->data() + element * bytes_of(sizes_.dtype);
  }
  void start(Channel& channel, comm::Operation operation, std::byte* data, std::int64_t count, std::string_view what);
  /// Takes message `micro_step`, and starts to receive the one after it.
  template <class Slot>
  void take(Channel& channel, int micro_step, std::int64_t count, std::string_view what, Slot const& slot);
  static void settle(Channel& channel);

  ChannelSizes sizes_;
  std::int64_t first_output_ = 0, first_output_gradient_ = 0, first_input_gradient_ = 0;
  std::unique_ptr<device::Memory> memory_;
  Channel from_before_, to_next_, from_next_, to_before_;
};

}  // namespace zeroth::engine
