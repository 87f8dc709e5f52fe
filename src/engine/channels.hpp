// SPDX-License-Identifier: Apache-2.0
/// What the stages of a pipeline send each other, and the memory that it lies in.
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

/// What a rank's channels are made for.
struct ChannelSizes {
  std::int64_t input_count = 0;   ///< Elements of a message from the chunk before, at most; 0: there is none.
  std::int64_t output_count = 0;  ///< Elements of a message to the chunk behind, at most; 0: there is none.
  Dtype dtype = Dtype::fp32;      ///< What they are sent in.
  int inputs = 0, gradients = 0;  ///< Slots for messages that forward and that backward reads.
  /// What the slots of all messages take: what is sent has one in each direction.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return (input_count * (inputs + 1) + output_count * (1 + gradients)) * bytes_of(dtype);
  }
};

/// Where a chunk of the whole model begins, and messages come in.
struct Boundary {
  std::int64_t count;  ///< Elements of a message; 0: the chunk reads the batch.
  std::string unit;    ///< The chunk's first one, for messages about it.
};

/// What a rank does one after the other, and the slots that it needs for that.
struct Script {
  stage::Actions actions;
  stage::PipelineSlots slots;
};

/// Messages to and from both neighbours; with several chunks a stage, the last and the first stage are neighbours too.
/// Each direction has a communicator of two ranks and a stream. What is received stays until the last action of its
/// micro-step in its chunk, and one message more is received ahead. What is sent has one slot. An action waits until
/// what it reads is there, and until what was last in the slot that it writes has been sent.
class Channels {
 public:
  /// Collective on `stages`, the ranks at the same place of all stages, in order; waits. `boundaries` are those of all
  /// chunks of the model. All but them outlive it.
  Channels(comm::Communicator& stages, device::Device& device, ChannelSizes const& sizes,
           std::vector<Boundary> boundaries);
  Channels(Channels const&) = delete;
  Channels& operator=(Channels const&) = delete;
  ~Channels();

  void set_options(comm::CommOptions const& options);
  [[nodiscard]] std::int64_t bytes() const noexcept { return sizes_.bytes(); }  ///< See ChannelSizes.
  /// Milliseconds that actions have waited for neighbours so far, which Stream::waited_ms() of compute counts, too.
  [[nodiscard]] double waited_ms() const noexcept { return waited_ms_; }
  /// Before action number `index`: waits for what it reads, and for the slot that it writes.
  void begin(Script const& script, std::size_t index);
  /// Sends what the action wrote.
  void end(Script const& script, std::size_t index);

  /// Of an evaluation pass, which is open while no message of a step is under way: waits for its input, once.
  [[nodiscard]] std::byte* evaluation_input(int chunk);
  /// The same: waits until what was last in the slot has been sent.
  [[nodiscard]] std::byte* evaluation_output();
  /// Takes the input if nobody has asked for it, and sends the output. Not of a pass that was left before it began.
  void end_evaluation_pass(int chunk);

  /// Where the messages of that action lie. input() is there in all its phases, each other one in some.
  [[nodiscard]] std::byte* input(Script const& script, std::size_t index) noexcept {
    return at(sizes_.input_count * script.slots.input[index]);
  }
  [[nodiscard]] std::byte* output() noexcept { return at(first_output_); }
  [[nodiscard]] std::byte* output_gradient(Script const& script, std::size_t index) noexcept {
    return at(first_output_gradient_ + sizes_.output_count * script.slots.gradient[index]);
  }
  [[nodiscard]] std::byte* input_gradient() noexcept { return at(first_input_gradient_); }

 private:
  /// Messages of one kind, between this rank and a neighbour.
  struct Channel {
    char const* name;                               ///< Of its stream.
    std::unique_ptr<comm::Communicator> pair = {};  ///< Null: no neighbour.
    std::unique_ptr<device::Event> end = {};        ///< Of the last message.
    std::unique_ptr<device::Stream> stream = {};    ///< Ends before what its work uses.
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
  /// The channel that takes what the action writes; null: it sends nothing.
  [[nodiscard]] Channel* outgoing(stage::Action const& action) noexcept;
  /// `chunk` is the one that reads or read it forward.
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
  bool took_input_ = false;  // the evaluation pass that is open
  double waited_ms_ = 0;
};

}  // namespace zeroth::engine
