// SPDX-License-Identifier: Apache-2.0
/// libtorch's random number generator for the CPU, of which each process has one.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "zeroth/adapters/torch/launch.hpp"
#include "zeroth/comm/collectives.hpp"
#include "zeroth/core/log.hpp"

namespace zeroth::torch_adapter::detail {

/// The state of libtorch's default generator for the CPU.
[[nodiscard]] inline at::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard const lock{generator.mutex()};
  return generator.get_state();
}
inline void set_random_state(at::Tensor const& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard const lock{generator.mutex()};
  generator.set_state(state);
}

using Saved = c10::Dict<c10::IValue, c10::IValue>;

/// Saves the generators of all ranks in checkpoints, so that dropout masks continue where they were.
class Generators {
 public:
  /// `among` is null if there is only one rank.
  Generators(Job const& job, Collectives* among) : rank_{job.rank()}, world_{job.world()}, among_{among} {}

  /// Saves each distinct state once, and which one each rank has. Collective; waits.
  void save_into(c10::Dict<std::string, at::Tensor>& values) const {
    auto const mine = random_state();
    auto all = at::empty({world_, mine.numel()}, at::kByte);
    if (among_ == nullptr) {
      all.copy_(mine.unsqueeze(0));
    } else {
      among_
          ->start({comm::Operation::all_gather, mine.data_ptr(), all.data_ptr(), mine.numel(), Dtype::byte},
                  "generators")
          .wait();
    }
    auto const [states, of_rank, counts] = at::unique_dim(all, 0, true, true);
    values.insert(states_name, states);
    values.insert(ranks_name, of_rank);
  }
  /// Restores this rank's generator. If the checkpoint has none for it, the generator stays as it is, and rank 0 logs
  /// that.
  void restore_from(Saved const& saved) const {
    auto const states = saved.find(std::string{states_name});
    auto const of_rank = saved.find(std::string{ranks_name});
    bool const has_them = states != saved.end() && of_rank != saved.end();
    auto const ranks = has_them ? of_rank->value().toTensor().numel() : 0;
    if (ranks == world_) {
      auto const row = of_rank->value().toTensor()[rank_].item<std::int64_t>();
      std::lock_guard const lock{generator_turns()};
      set_random_state(states->value().toTensor()[row].clone());
    } else if (rank_ == 0) {
      zeroth::detail::log_warning(
          "restore(): the checkpoint has the generators of " + std::to_string(ranks) + " ranks, but " +
          std::to_string(world_) +
          " ranks resume: dropout and other random operations draw different numbers than before");
    }
  }
  /// Whether a saved name is one of these. No buffer of a module has such a name.
  [[nodiscard]] static bool has(std::string const& name) { return name == states_name || name == ranks_name; }

 private:
  static constexpr char states_name[] = ".generators", ranks_name[] = ".generator_of_rank";
  int rank_, world_;
  Collectives* among_;
};

}  // namespace zeroth::torch_adapter::detail
