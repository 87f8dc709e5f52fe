// SPDX-License-Identifier: Apache-2.0
/// GPT-2: runs its units forward and backward. Only this part opens units.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <zeroth/engine/activation_store.hpp>

#include "block.hpp"
#include "embedding.hpp"
#include "kept_blocks.hpp"
#include "math.hpp"

namespace gpt {

/// Runs on a Device (math.hpp). A `Pass` opens units: forward(unit) and backward(unit) return an OpenUnit.
template <class Device>
class Gpt {
 public:
  using Matrix = Activations<Device>;
  using Block = gpt::Block<Device>;
  using Head = gpt::Head<Device>;
  using Batch = typename Device::Batch;

  /// One micro-batch's activations. The next micro-batch reuses the memory.
  struct Workspace {
    std::vector<Matrix> x;                     // inputs of blocks, without stored ones, and the last output
    std::array<Matrix, 2> passing;             // inputs of blocks that are stored, alternately
    zeroth::ActivationStore* store = nullptr;  // stores those inputs; null in a rehearsal
    std::vector<zeroth::ActivationStore::Kept> stored;
    std::vector<typename Block::Tape> blocks;  // without memory for blocks that are recomputed
    typename Block::Tape recomputed;           // shared by recomputed blocks, one after the other
    typename Head::Tape head;
    typename Block::Scratch scratch;
    Matrix d;
    Matrix all;                                  // rows of all tensor ranks, if they divide rows after the embedding
    std::vector<typename Block::Slopes> slopes;  // of each block, if backward has two halves
    typename Head::Slopes head_slopes;
  };

  /// `dropout` is its rate after the embedding, attention and the MLP; 0 disables it.
  Gpt(GptParams const& params, KeptBlocks kept, float dropout = 0)
      : kept_{std::move(kept)},
        embedding_{params.embedding, params.shape, dropout},
        key_blocks_{params.key_blocks},
        head_{params.head} {
    kept_.resize(params.blocks.size());  // without any, no block is recomputed
    std::uint32_t index = 0;
    for (auto const& block : params.blocks) {
      blocks_.emplace_back(block, params.shape, index++, dropout, key_blocks_.get());
    }
  }
  /// All blocks are treated alike.
  Gpt(GptParams const& params, Recompute recompute, float dropout = 0)
      : Gpt{params, KeptBlocks(params.blocks.size(), KeptBlock{recompute}), dropout} {}
  Gpt(zeroth::Model& model, Shape const& shape, Recompute recompute, float dropout = 0)
      : Gpt{GptParams{model, shape}, recompute, dropout} {}

  /// The units to run: all, or the consecutive ones of a pipeline stage.
  struct Part {
    bool embedding = true, head = true;
    std::size_t first_block = 0, blocks = 0;
  };
  [[nodiscard]] Part all() const { return {.blocks = blocks_.size()}; }
  [[nodiscard]] Part part_of(std::span<zeroth::Unit const> units) const {
    auto const index_in_blocks = [&](std::size_t unit) {
      return std::clamp<std::size_t>(unit, 1, blocks_.size() + 1) - 1;
    };
    std::size_t const first = units.front().index();
    std::size_t const last = units.back().index();
    return {.embedding = first == embedding_.unit().index(),
            .head = last == head_.unit().index(),
            .first_block = index_in_blocks(first),
            .blocks = index_in_blocks(last + 1) - index_in_blocks(first)};
  }
  /// Activations for all units, or for those that one stage keeps of a micro-step.
  [[nodiscard]] Workspace workspace() const { return workspace(all()); }
  [[nodiscard]] Workspace workspace(Part const& part) const {
    Workspace w;
    w.x.resize(part.blocks + 1);
    w.blocks.resize(part.blocks);
    w.stored.resize(part.blocks);
    return w;
  }

  /// The mean loss over the batch.
  template <class Pass>
  [[nodiscard]] auto forward(Pass& pass, Batch const& batch, Workspace& w) const {
    forward_body(pass, all(), batch, w);
    return forward_head(pass, all(), batch, w);
  }
  /// Runs all units but the head: from the batch, or from w.x[0], to w.x[part.blocks].
  template <class Pass>
  void forward_body(Pass& pass, Part const& part, Batch const& batch, Workspace& w) const {
    if (part.embedding) {
      embedding_.forward(pass.forward(embedding_.unit()), batch, input(w, part, 0), w.all);
    }
    for (std::size_t i = 0; i < part.blocks; ++i) {
      auto const& block = blocks_[part.first_block + i];
      auto const p = pass.forward(block.unit());
      auto const& x = input(w, part, i);
      if (is_stored(part, i) && w.store != nullptr) {
        w.stored[i] = {};
        w.stored[i] = w.store->put(x.data(), bytes_in(x), block.unit());
      }
      block.forward(p, x, tape(w, part, i), w.scratch);
      block.output(p, tape(w, part, i), w.scratch, input(w, part, i + 1));
    }
  }
  template <class Pass>
  [[nodiscard]] auto forward_head(Pass& pass, Part const& part, Batch const& batch, Workspace& w) const {
    return head_.forward(pass.forward(head_.unit()), w.x[part.blocks], batch, w.head);
  }

  /// Call after forward on the same batch. Computes `seed` times the gradient of the mean loss.
  template <class Pass>
  void backward(Pass& pass, Batch const& batch, Workspace& w, typename Device::Seed seed) const {
    backward(pass, all(), batch, w, seed);
  }
  /// On entry `w.d` is the gradient of w.x[part.blocks], unless the part has the head. On return it is the gradient of
  /// w.x[0]; unspecified if the part has the embedding.
  template <class Pass>
  void backward(Pass& pass, Part const& part, Batch const& batch, Workspace& w, typename Device::Seed seed) const {
    auto next = part.blocks;  // inputs of blocks before this one were not fetched
    for (int slot = 0; w.store != nullptr && slot < w.store->slots(); ++slot) {
      next = fetch_before(next, part, w);
    }
    if (part.head) {
      head_.backward(pass.backward(head_.unit()), w.x[part.blocks], batch, w.head, seed, w.d);
    }
    bool still_valid = true;  // the intermediates of the last block that is recomputed
    for (auto i = part.blocks; i-- > 0;) {
      auto const& block = blocks_[part.first_block + i];
      auto const p = pass.backward(block.unit());
      auto& x = input(w, part, i);
      if (is_stored(part, i) && w.store != nullptr) {
        w.stored[i].take(x.data());
        next = fetch_before(next, part, w);
      }
      if (recomputes(part, i) && !std::exchange(still_valid, false)) {
        block.forward(p, x, tape(w, part, i), w.scratch);
      }
      block.backward(p, x, tape(w, part, i), w.scratch, w.d);
    }
    if (part.embedding) {
      embedding_.backward(pass.backward(embedding_.unit()), batch, w.d, w.all);
    }
  }
  /// The first half of backward, for inputs; not supported if any block is recomputed. The second half needs the
  /// contents of `w`.
  template <class Pass>
  void backward_inputs(Pass& pass, Part const& part, Batch const& batch, Workspace& w,
                       typename Device::Seed seed) const {
    w.slopes.resize(std::max(w.slopes.size(), part.blocks));
    if (part.head) {
      head_.backward_inputs(pass.inputs(head_.unit()), w.x[part.blocks], batch, w.head, seed, w.head_slopes, w.d);
    }
    for (auto i = part.blocks; i-- > 0;) {
      auto const& block = blocks_[part.first_block + i];
      block.backward_inputs(pass.inputs(block.unit()), w.x[i], w.blocks[i], w.scratch, w.slopes[i], w.d);
    }
    if (part.embedding) {
      static_cast<void>(pass.inputs(embedding_.unit()));  // it has no input gradients
    }
  }
  template <class Pass>
  void backward_weights(Pass& pass, Part const& part, Batch const& batch, Workspace& w) const {
    if (part.head) {
      head_.backward_weights(pass.weights(head_.unit()), w.head, w.head_slopes);
    }
    for (auto i = part.blocks; i-- > 0;) {
      auto const& block = blocks_[part.first_block + i];
      block.backward_weights(pass.weights(block.unit()), w.blocks[i], w.scratch, w.slopes[i]);
    }
    if (part.embedding) {
      embedding_.backward(pass.weights(embedding_.unit()), batch, w.d, w.all);
    }
  }

 private:
  /// Blocks are counted from the first of the part.
  [[nodiscard]] bool recomputes(Part const& part, std::size_t block) const {
    return kept_[part.first_block + block].recompute == Recompute::on;
  }
  [[nodiscard]] bool is_stored(Part const& part, std::size_t block) const {
    return block < part.blocks && kept_[part.first_block + block].is_stored;
  }
  Matrix& input(Workspace& w, Part const& part, std::size_t block) const {
    return is_stored(part, block) ? w.passing[block % 2] : w.x[block];
  }
  [[nodiscard]] static std::int64_t bytes_in(Matrix const& x) { return x.count() * std::int64_t{sizeof(*x.data())}; }
  /// Begins to read the input of the last block before `end` that is stored. Returns its index; 0: there is none.
  std::size_t fetch_before(std::size_t end, Part const& part, Workspace& w) const {
    while (end > 0 && !is_stored(part, --end)) {
    }
    if (is_stored(part, end) && w.stored[end]) {
      w.stored[end].fetch();
    }
    return end;
  }
  typename Block::Tape& tape(Workspace& w, Part const& part, std::size_t block) const {
    return recomputes(part, block) ? w.recomputed : w.blocks[block];
  }

  KeptBlocks kept_;
  Embedding<Device> embedding_;
  std::shared_ptr<KeyBlocks const> key_blocks_;  // outlives the blocks
  std::vector<Block> blocks_;
  Head head_;
};

}  // namespace gpt
