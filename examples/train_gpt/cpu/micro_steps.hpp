// SPDX-License-Identifier: Apache-2.0
/// Runs train()'s micro-steps on the CPU.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
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
  /// `tensor` must outlive it; if it is null, no layer is divided. Without `kept` no block is recomputed.
  MicroSteps(zeroth::Engine<T, G>& engine, GptParams const& params, Options const& options, MathChoice const& choice,
             zeroth::Settings const& /*settings*/, zeroth::TensorParallel* tensor = nullptr,
             KeptBlocks const& kept = {})
      : gpt_{params, kept, options.dropout},
        matmul_{make_matmul(choice)},
        cpu_{*matmul_, tensor},
        workspace_{gpt_.workspace()} {
    rehearse<G>(gpt_, cpu_, workspace_, engine.micro_batch() * params.shape.context);
    auto const rows = engine.micro_batch() * params.shape.context / (cpu_.divides_rows() ? cpu_.tensor_ranks() : 1);
    if (auto const asked = store_of(kept, params.shape, rows, sizeof(T))) {
      workspace_.store = &store_.emplace(engine, *asked);
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
  std::optional<zeroth::ActivationStore> store_;  // outlives what is in it
  typename Gpt<Cpu<T>>::Workspace workspace_;
};

/// The `Where` of train() for the CPU.
struct OnCpu {
  static constexpr auto kind = zeroth::DeviceKind::cpu;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using MicroSteps = cpu::MicroSteps<T, G>;
  template <zeroth::Element T, zeroth::GradientOf<T> G>
  using StageWork = cpu::StageWork<T, G>;

  /// Collective.
  static MathChoice choose(zeroth::Job& job, Options const& options, zeroth::Dtype compute) {
    auto choice = cpu::choose(options.math, compute);
    expect_same_on_all_ranks(job, choice);
    return choice;
  }
  /// Call on the thread of the engine.
  static zeroth::Config with_products(zeroth::Config const& config, MathChoice const& choice, zeroth::Dtype compute) {
    return with_muon_products(config, choice, compute);
  }
};

}  // namespace gpt::cpu
