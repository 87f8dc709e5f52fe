// SPDX-License-Identifier: Apache-2.0
/// Runs the actions of a pipeline stage for train() on the CPU.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zeroth/core/error.hpp>
#include <zeroth/engine/engine.hpp>

#include "batches.hpp"
#include "cpu/choice.hpp"
#include "cpu/rehearsal.hpp"
#include "gpt.hpp"
#include "options.hpp"

namespace gpt::cpu {

[[nodiscard]] inline std::string products_of(Matmul const& matmul, bool all) {
  auto const slow = matmul.slow_products();
  return (all ? matmul.table() : std::string{}) + (slow.empty() ? slow : "oneDNN has nothing fast for\n" + slow);
}

template <zeroth::Element T, zeroth::GradientOf<T> G>
class StageWork {
 public:
  /// `tensor` must outlive it; if it is null, no layer is divided.
  StageWork(zeroth::Engine<T, G>& engine, GptParams const& params, Options const& options, MathChoice const& choice,
            zeroth::TensorParallel* tensor, KeptBlocks const& kept)
      : gpt_{params, kept, options.dropout},
        matmul_{make_matmul(choice)},
        cpu_{*matmul_, tensor},
        tokens_{engine.micro_batch() * params.shape.context},
        rows_{tokens_ / (cpu_.divides_rows() ? cpu_.tensor_ranks() : 1)},
        channels_{params.shape.channels},
        tapes_(static_cast<std::size_t>(engine.in_flight())),
        recomputes_{std::ranges::any_of(kept, [](auto const& block) { return block.recompute == Recompute::on; })} {}

  /// Runs forward or backward of one micro-step through the units of a chunk. Reads a batch if they need one.
  void run(zeroth::Work<T, G>& work, Batches const& batches, std::int64_t samples) {
    auto& tape = tapes_[static_cast<std::size_t>(work.slot())];
    auto const part = gpt_.part_of(work.units());
    PassOn pass{cpu_, work};
    if (work.phase() == zeroth::Phase::forward) {
      prepare(tape, part);
      if (work.first() || work.last()) {
        batches.read(work.first_sample(), samples, tape.batch);
      }
      forward(work, pass, part, tape);
    } else if (work.phase() == zeroth::Phase::backward_weights) {
      gpt_.backward_weights(pass, part, tape.batch, *tape.workspace);
    } else {
      backward(work, pass, part, tape);
    }
  }
  [[nodiscard]] std::string products(bool all) const { return products_of(*matmul_, all); }

 private:
  using Matrix = typename Gpt<Cpu<T>>::Matrix;
  using Part = typename Gpt<Cpu<T>>::Part;
  /// The data that a micro-step keeps from forward to backward. Activations are copied from and to messages, into
  /// memory with the same alignment as without a pipeline: another alignment would change the order of sums, and so the
  /// bits.
  struct Tape {
    std::optional<typename Gpt<Cpu<T>>::Workspace> workspace;
    Batch batch;
    float seed = 0;
  };

  /// Allocates all memory and prepares all products before the first one.
  void prepare(Tape& tape, Part const& part) {
    if (!tape.workspace || tape.workspace->x.size() < part.blocks + 1) {  // chunks may differ in their number of blocks
      auto& w = tape.workspace.emplace(gpt_.workspace(part));
      w.x.front().resize(rows_, channels_);
      w.d.resize(rows_, channels_);
      rehearse<G>(gpt_, cpu_, w, tokens_, part);
    }
  }
  void forward(zeroth::Work<T, G>& work, PassOn<Cpu<T>, zeroth::Work<T, G>>& pass, Part const& part, Tape& tape) {
    auto& w = *tape.workspace;
    if (!work.first()) {
      copy(work.input(), w.x.front());
    }
    gpt_.forward_body(pass, part, tape.batch, w);
    if (work.last()) {
      tape.seed = work.report_loss(gpt_.forward_head(pass, part, tape.batch, w));
    } else {
      copy(w.x[part.blocks], work.output());
    }
  }
  void backward(zeroth::Work<T, G>& work, PassOn<Cpu<T>, zeroth::Work<T, G>>& pass, Part const& part, Tape& tape) {
    auto& w = *tape.workspace;
    if (!work.last()) {
      copy(work.output_gradient(), w.d);
    }
    if (work.phase() == zeroth::Phase::backward) {
      gpt_.backward(pass, part, tape.batch, w, tape.seed);
    } else if (recomputes_) {
      throw zeroth::ConfigError{
          "--recompute (or zeroth.activation_checkpointing.units, or activation_checkpointing.number_checkpoints) with "
          "a zeroth.pipeline.schedule that divides "
          "backward: what a block computes again would be computed twice; allowed are gpipe, 1f1b and "
          "interleaved_1f1b"};
    } else {
      gpt_.backward_inputs(pass, part, tape.batch, w, tape.seed);
    }
    if (!work.first()) {
      copy(w.d, work.input_gradient());
    }
  }
  void copy(zeroth::View<T const, 2> const& message, Matrix& matrix) const {
    matrix.resize(rows_, channels_);
    std::memcpy(matrix.data(), message.data(), static_cast<std::size_t>(message.count()) * sizeof(T));
  }
  static void copy(Matrix const& matrix, zeroth::View<T, 2> const& message) {
    std::memcpy(message.data(), matrix.data(), static_cast<std::size_t>(message.count()) * sizeof(T));
  }

  Gpt<Cpu<T>> gpt_;
  std::unique_ptr<Matmul> matmul_;
  Cpu<T> cpu_;
  std::int64_t tokens_;           // per micro-batch
  std::int64_t rows_, channels_;  // size of the activations between units
  std::vector<Tape> tapes_;
  bool recomputes_;
};

}  // namespace gpt::cpu
