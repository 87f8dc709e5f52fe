// SPDX-License-Identifier: Apache-2.0
/// Messages between the stages of a pipeline, and their buffers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stage/pipeline_slots.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::engine {

/// The sizes of a rank's channels.
struct ChannelSizes {
  std::int64_t input_count = 0;   ///< Maximum elements of a message from the previous chunk; 0: no previous chunk.
  std::int64_t output_count = 0;  ///< Maximum elements of a message to the next chunk; 0: no next chunk.
  Dtype dtype = Dtype::fp32;      ///< The dtype of messages.
  int inputs = 0, gradients = 0;  ///< Receive slots for messages that forward and backward read.
  /// Bytes of all slots. Each direction also has one send slot.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return (input_count * (inputs + 1) + output_count * (1 + gradients)) * bytes_of(dtype);
  }
};

/// The start of a chunk of the whole model, and the message that arrives there.
struct Boundary {
  std::int64_t count;  ///< Elements of a message; 0: the chunk reads the batch.
  std::string unit;    ///< The chunk's first unit, for error messages.
};

/// The sequence of a rank's actions, and the slots that they need.
struct Script {
  stage::Actions actions;
  stage::PipelineSlots slots;
};

/// Messages to and from both neighbours. With several chunks per stage, the last and the first stage are neighbours
/// too. Each direction has a communicator of two ranks and a stream. A received message stays until the last action of
/// its micro-step in its chunk, and one more is received ahead. Each direction has one send slot. An action waits until
/// its input has arrived, and until the previous message in its send slot has been sent.
class Channels {
 public:
  /// Collective on `stages`, the ranks at the same place of all stages, in order; waits. `boundaries` are those of all
  /// chunks of the model. The arguments other than `boundaries` must outlive it.
  Channels(comm::Communicator& stages, device::Device& device, ChannelSizes const& sizes,
           std::vector<Boundary> boundaries);
  Channels(Channels const&) = delete;
  Channels& operator=(Channels const&) = delete;
  ~Channels();

  void set_options(comm::CommOptions const& options);
  [[nodiscard]] std::int64_t bytes() const noexcept { return sizes_.bytes(); }  ///< See ChannelSizes.
  /// Milliseconds that actions have waited for neighbours so far. Stream::waited_ms() of compute includes them.
  [[nodiscard]] double waited_ms() const noexcept { return waited_ms_; }
  /// Call before action number `index`: waits for its input, and for its send slot.
  void begin(Script const& script, std::size_t index);
  /// Sends the output of the action.
  void end(Script const& script, std::size_t index);

  /// Waits until all messages that were started have been sent and received.
  void synchronize();

  /// The input of the current evaluation pass; waits for it on the first call. No message of a step may be in flight.
  [[nodiscard]] std::byte* evaluation_input(int chunk);
  /// Send memory of the current evaluation pass; waits until its previous message has been sent.
  [[nodiscard]] std::byte* evaluation_output();
  /// Sends the output. Receives the input first if evaluation_input() was not called. Do not call it for a pass that
  /// was left before it began.
  void end_evaluation_pass(int chunk);

  /// Buffers of the action's messages. input() is valid in all phases, each of the others in some.
  [[nodiscard]] std::byte* input(Script const& script, std::size_t index) noexcept {
    return at(sizes_.input_count * script.slots.input[index]);
  }
  [[nodiscard]] std::byte* output() noexcept { return at(first_output_); }
  [[nodiscard]] std::byte* output_gradient(Script const& script, std::size_t index) noexcept {
    return at(first_output_gradient_ + sizes_.output_count * script.slots.gradient[index]);
  }
  [[nodiscard]] std::byte* input_gradient() noexcept { return at(first_input_gradient_); }

 private:
  /// Messages of one kind between this rank and a neighbour.
  struct Channel {
    char const* name;                               ///< The stream's name.
    std::unique_ptr<comm::Communicator> pair = {};  ///< Null: no neighbour.
    std::unique_ptr<device::Event> end = {};        ///< Marks the end of the last message.
    std::unique_ptr<device::Stream> stream = {};    ///< Destroyed before the members that its work uses.
    bool under_way = false;
  };
  void connect(comm::Communicator& stages, int tail, bool goes_down);
  [[nodiscard]] std::byte* at(std::int64_t element) noexcept {
    return memory_->data() + element * bytes_of(sizes_.dtype);
  }
  [[nodiscard]] std::int64_t input_count(int chunk) const noexcept {
    return boundaries_[static_cast<std::size_t>(chunk)].count;
  }
  [[nodiscard]] int all_chunks() const noexcept { return static_cast<int>(boundaries_.size()); }
  /// The channel that sends the action's output; null if it sends nothing.
  [[nodiscard]] Channel* outgoing(stage::Action const& action) noexcept;
  /// `chunk` is the one that reads the message in forward, or has read it.
  void start(Channel& channel, comm::Operation operation, std::byte* data, int chunk, bool forward);
  void receive(Channel& channel, Script const& script, std::size_t index);
  void settle(Channel& channel);
  [[nodiscard]] std::array<Channel*, 4> channels() noexcept {
    return {&from_before_, &to_next_, &from_next_, &to_before_};
  }

  ChannelSizes sizes_;
  std::vector<Boundary> boundaries_;
  device::Device* device_;
  std::int64_t first_output_ = 0, first_output_gradient_ = 0, first_input_gradient_ = 0;
  std::unique_ptr<device::Memory> memory_;
  Channel from_before_{"receive input"}, to_next_{"send output"}, from_next_{"receive gradient"},
      to_before_{"send gradient"};
  bool took_input_ = false;  // in the current evaluation pass
  double waited_ms_ = 0;
};

}  // namespace zeroth::engine
