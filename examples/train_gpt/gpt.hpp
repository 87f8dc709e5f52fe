// SPDX-License-Identifier: Apache-2.0
/// GPT-2: the walk over its units, forward and back, which is the only part that opens them.
#pragma once
#include <cstddef>
#include <vector>

#include "block.hpp"
#include "embedding.hpp"
#include "math.hpp"

namespace gpt {

enum class Recompute : bool { off, on };

/// On a Device (math.hpp). A `Pass` opens units: forward(unit) and backward(unit) give an OpenUnit.
template <class Device>
class Gpt {
 public:
  using Matrix = Activations<Device>;
  using Block = gpt::Block<Device>;
  using Head = gpt::Head<Device>;
  using Batch = typename Device::Batch;

  /// One micro-batch's activations, in memory that the next micro-batch uses again.
  struct Workspace {
    std::vector<Matrix> x;                     // into each block, and out of the last
    std::vector<typename Block::Tape> blocks;  // one serves all if they are computed again
    typename Head::Tape head;
    typename Block::Scratch scratch;
    Matrix d;
  };

  Gpt(GptParams const& params, Recompute recompute)
      : recompute_{recompute}, embedding_{params.embedding}, head_{params.head} {
    for (auto const& block : params.blocks) {
      blocks_.emplace_back(block, params.shape);
    }
  }
  Gpt(zeroth::Model& model, Shape const& shape, Recompute recompute) : Gpt{GptParams{model, shape}, recompute} {}

  [[nodiscard]] Workspace workspace() const {
    Workspace w;
    w.x.resize(blocks_.size() + 1);
    w.blocks.resize(recompute_ == Recompute::on ? 1 : blocks_.size());
    return w;
  }

  /// The mean loss over the batch.
  template <class Pass>
  [[nodiscard]] auto forward(Pass& pass, Batch const& batch, Workspace& w) const {
    embedding_.forward(pass.forward(embedding_.unit()), batch, w.x[0]);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      auto const p = pass.forward(blocks_[i].unit());
      blocks_[i].forward(p, w.x[i], tape(w, i), w.scratch);
      blocks_[i].output(p, tape(w, i), w.scratch, w.x[i + 1]);
    }
    return head_.forward(pass.forward(head_.unit()), w.x.back(), batch, w.head);
  }

  /// After forward on the same batch. `seed` times the gradient of the mean loss.
  template <class Pass>
  void backward(Pass& pass, Batch const& batch, Workspace& w, typename Device::Wide seed) const {
    head_.backward(pass.backward(head_.unit()), w.x.back(), batch, w.head, seed, w.d);
    for (auto i = blocks_.size(); i-- > 0;) {
      auto const p = pass.backward(blocks_[i].unit());
      if (recompute_ == Recompute::on && i + 1 < blocks_.size()) {  // the last block's insides are still there
        blocks_[i].forward(p, w.x[i], tape(w, i), w.scratch);
      }
      blocks_[i].backward(p, w.x[i], tape(w, i), w.scratch, w.d);
    }
    embedding_.backward(pass.backward(embedding_.unit()), batch, w.d);
  }

 private:
  typename Block::Tape& tape(Workspace& w, std::size_t block) const {
    return w.blocks[recompute_ == Recompute::on ? 0 : block];
  }

  Recompute recompute_;
  Embedding<Device> embedding_;
  std::vector<Block> blocks_;
  Head head_;
};

}  // namespace gpt
