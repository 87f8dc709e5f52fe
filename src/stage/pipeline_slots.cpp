// SPDX-License-Identifier: Apache-2.0
#include "stage/pipeline_slots.hpp"

#include <functional>
#include <map>
#include <queue>
#include <utility>

namespace zeroth::stage {
namespace {

/// Hands out the lowest free number.
class Pool {
 public:
  int take() {
    if (free_.empty()) {
      return count_++;
    }
    auto const lowest = free_.top();
    free_.pop();
    return lowest;
  }
  void give_back(int number) {
    if (number != PipelineSlots::none) {
      free_.push(number);
    }
  }
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
  int count_ = 0;
};

/// Chunk and micro-step.
using Key = std::pair<int, int>;
Key key_of(Action const& action) { return {action.chunk, action.micro_step}; }

/// The slots of a micro-step of a chunk.
struct Held {
  int activations = PipelineSlots::none, input = PipelineSlots::none, gradient = PipelineSlots::none;
};

}  // namespace

PipelineSlots slots_of(Actions const& actions, int all_chunks) {
  PipelineSlots slots;
  auto const none = actions.size();
  slots.reads_next.assign(actions.size(), none);
  std::map<Key, std::size_t> last;
  auto next_input = none;
  auto next_gradient = none;
  for (auto index = actions.size(); index-- > 0;) {
    last.emplace(key_of(actions[index]), index);
    if (reads_input(actions[index])) {
      slots.reads_next[index] = std::exchange(next_input, index);
    } else if (reads_gradient(actions[index], all_chunks)) {
      slots.reads_next[index] = std::exchange(next_gradient, index);
    }
  }
  std::map<int, Pool> activations;  // by chunk
  Pool inputs;
  Pool gradients;
  std::map<Key, Held> held;
  // A channel receives its first message when it is read, and each later one while the previous one is read.
  auto const receive = [&](std::size_t index) {
    if (index != none) {
      bool const is_input = reads_input(actions[index]);
      auto& slot = is_input ? held[key_of(actions[index])].input : held[key_of(actions[index])].gradient;
      slot = slot == PipelineSlots::none ? (is_input ? inputs : gradients).take() : slot;
    }
  };
  for (std::size_t index = 0; index < actions.size(); ++index) {
    auto const& action = actions[index];
    if (reads_input(action) || reads_gradient(action, all_chunks)) {
      receive(index);
      receive(slots.reads_next[index]);
    }
    auto const key = key_of(action);
    auto& mine = held[key];
    if (action.phase == Phase::forward) {
      mine.activations = activations[action.chunk].take();
    }
    slots.activations.push_back(mine.activations);
    slots.input.push_back(mine.input);
    slots.gradient.push_back(mine.gradient);
    if (last.at(key) == index) {
      activations[action.chunk].give_back(mine.activations);
      inputs.give_back(mine.input);
      gradients.give_back(mine.gradient);
      held.erase(key);
    }
  }
  std::map<int, int> before;  // first activation slot of each chunk
  for (auto const& [chunk, pool] : activations) {
    before[chunk] = slots.most_activations;
    slots.most_activations += pool.count();
  }
  for (std::size_t index = 0; index < actions.size(); ++index) {
    slots.activations[index] += before.at(actions[index].chunk);
  }
  slots.most_inputs = inputs.count();
  slots.most_gradients = gradients.count();
  return slots;
}

}  // namespace zeroth::stage
