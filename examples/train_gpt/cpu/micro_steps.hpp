// SPDX-License-Identifier: Apache-2.0
/// Runs train()'s micro-steps on the CPU.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <zeroth/engine/engine.hpp>

#include "batches.hpp"
#include "cpu/choice.hpp"
#include "cpu/muon_products.hpp"
#include "cpu/rehearsal.hpp"
#include "cpu/stage_work.hpp"
#include "gpt.hpp"
#include "options.hpp"

namespace gpt::cpu {

template <zeroth::Element T, zeroth::GradientOf<T> G>
class MicroSteps {
 public:
  /// `tensor` must outlive it. Null: no layer is divided. Without `kept` no block is recomputed.
  MicroSteps(zeroth::Engine<T, G>& engine, GptParams const& params, Options const& options, MathChoice const& choice,
             std::int64_t /*micro_steps*/, zeroth::TensorParallel* tensor = nullptr, KeptBlocks const& kept = {})
      : gpt_{params, kept, options.dropout},
        matmul_{make_matmul(choice)},
        cpu_{*matmul_, tensor},
        workspace_{gpt_.workspace()} {
    rehearse<G>(gpt_, cpu_, workspace_, engine.micro_batch() * params.shape.context);
    if (auto const count = count_on_disk(kept); count > 0) {
      // Tensor ranks may divide rows; then this is the input of a rank.
      auto const bytes =
          std::max(workspace_.passing[0].count(), workspace_.passing[1].count()) * std::int64_t{sizeof(T)};
      store_ = std::make_unique<zeroth::ActivationStore>(
          engine, zeroth::ActivationStoreOptions{.bytes = count * bytes, .input_bytes = bytes});
      workspace_.store = store_.get();
    }
  }

  /// Forward and backward.
  void run(zeroth::MicroStep<T, G>& micro, Batch const& batch) {
    PassOn pass{cpu_, micro};
    float const loss = gpt_.forward(pass, batch, workspace_);
    gpt_.backward(pass, batch, workspace_, micro.report_loss(loss));
  }
  /// The implementations of products: of every shape if `all`, otherwise of slow ones only.
  [[nodiscard]] std::string products(bool all) const { return products_of(*matmul_, all); }

 private:
  Gpt<Cpu<T>> gpt_;
  std::unique_ptr<Matmul> matmul_;
  Cpu<T> cpu_;
  std::unique_ptr<zeroth::ActivationStore> store_;  // outlives what is in it
  typename Gpt<Cpu<T>>::Workspace workspace_;
};

/// The `Where` of train() for the CPU.
struct OnCpu {
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using MicroSteps = cpu::MicroSteps<T, G>;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using StageWork = cpu::StageWork<T, G>;

  /// Collective.
  static MathChoice choose(zeroth::Job& job, MathLibrary asked, zeroth::Dtype compute) {
    auto choice = cpu::choose(asked, compute);
    expect_same_on_all_ranks(job, choice);
    return choice;
  }
  /// Call on the thread of the engine.
  static zeroth::Config with_products(zeroth::Config const& config, MathChoice const& choice, zeroth::Dtype compute) {
    return with_muon_products(config, choice, compute);
  }
};

}  // namespace gpt::cpu
