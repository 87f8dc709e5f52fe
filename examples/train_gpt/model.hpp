/// GPT-2 as Hugging Face's GPT2LMHeadModel names and shapes it: the only part that opens units.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "block.hpp"
#include "embedding.hpp"

namespace gpt {

enum class Recompute : bool { off, on };

/// S is the scalar of the math. A `Pass` opens units: forward(unit) gives something that is a Parameters<S>, and
/// backward(unit), which only training asks for, something that is a Gradients<S>.
template <class S>
class Gpt {
 public:
  /// One micro-batch's activations, in memory that the next micro-batch uses again.
  struct Workspace {
    std::vector<Matrix<S>> x;                     // into each block, and out of the last
    std::vector<typename Block<S>::Tape> blocks;  // one serves all if they are computed again
    typename Head<S>::Tape head;
    typename Block<S>::Scratch scratch;
    Matrix<S> d;
  };

  Gpt(zeroth::Model& model, Shape const& shape, Recompute recompute)
      : recompute_{recompute},
        embedding_{model, shape},
        blocks_{make_blocks(model, shape)},
        head_{model, shape, embedding_} {}

  [[nodiscard]] Workspace workspace() const {
    Workspace w;
    w.x.resize(blocks_.size() + 1);
    w.blocks.resize(recompute_ == Recompute::on ? 1 : blocks_.size());
    return w;
  }

  /// The mean loss over the batch.
  template <class Pass>
  S forward(Pass& pass, Batch const& batch, Workspace& w) const {
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
  void backward(Pass& pass, Batch const& batch, Workspace& w, S seed) const {
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
  static std::vector<Block<S>> make_blocks(zeroth::Model& model, Shape const& shape) {
    std::vector<Block<S>> blocks;
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      blocks.emplace_back(model, shape, "transformer.h." + std::to_string(i));
    }
    return blocks;
  }
  typename Block<S>::Tape& tape(Workspace& w, std::size_t block) const {
    return w.blocks[recompute_ == Recompute::on ? 0 : block];
  }

  Recompute recompute_;
  Embedding<S> embedding_;
  std::vector<Block<S>> blocks_;
  Head<S> head_;
};

}  // namespace gpt
