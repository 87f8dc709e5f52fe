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
  std::int64_t output_count = 0;  ///< Elements of a message to the next stage; 0: there is none.
  Dtype dtype = Dtype::fp32;      ///< What they are sent in.
  int micro_steps = 1;            ///< Micro-steps of a step.
  int in_flight = 1;              ///< See stage::in_flight().
  /// What the slots of all messages take.
  [[nodiscard]] std::int64_t bytes() const noexcept;
};

/// Messages to and from both neighbours. Each direction has a communicator of two ranks, a stream, and slots. Inputs
/// stay until backward has read them, and one more is received ahead. One gradient is received ahead. What is sent has
/// one slot. An action waits until what it reads is there, and until what was last in the slot that it writes has been
/// sent.
class Channels {
 public:
  /// Collective on `stages`, the ranks at the same place of all stages, in order; waits. All outlive it.
  Channels(Job& stages, device::Device& device, ChannelSizes const& sizes);
  Channels(Channels const&) = delete;
  Channels& operator=(Channels const&) = delete;
  ~Channels();

  void set_options(comm::CommOptions const& options);
  [[nodiscard]] std::int64_t bytes() const noexcept { return sizes_.bytes(); }  ///< See ChannelSizes.
  /// Waits for what the action reads, and for its slot.
  void begin(stage::Action const& action);
  /// Sends what the action wrote.
  void end(stage::Action const& action);

  /// Of an evaluation pass, which is open while no message of a step is under way: waits for its input, once.
  [[nodiscard]] std::byte* evaluation_input();
  /// The same: waits until what was last in the slot has been sent.
  [[nodiscard]] std::byte* evaluation_output();
  /// Takes the input if nobody has asked for it, and sends the output. Not of a pass that was left before it began.
  void end_evaluation_pass();

  /// Where the messages of the action that is open lie. input() is there in both phases, each other one in one of them.
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
  bool took_input_ = false;  // the evaluation pass that is open
};

}  // namespace zeroth::engine
