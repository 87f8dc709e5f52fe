// SPDX-License-Identifier: Apache-2.0
/// A micro-step without computation: layers allocate all memory and prepare all products, so that the first step is
/// like the others.
#pragma once
#include <cstddef>
#include <utility>

#include <zeroth/engine/guards.hpp>

#include "cpu/cpu.hpp"
#include "gpt.hpp"

namespace gpt::cpu {

template <class T>
class Rehearsal {
 public:
  explicit Rehearsal(Cpu<T>& cpu) : cpu_{cpu} {}
  void multiply(Product const& product) { cpu_.prepare(product); }
  template <class... Rest>
  void attend(AttentionHeads const& heads, Rest&&...) {
    cpu_.prepare(heads);
  }
  void attend_backward(auto&&...) {}
  void clear(auto&&...) {}
  void add_to_rows(auto&&...) {}
  void add(auto&&...) {}
  struct Nothing {
    void wait() const noexcept {}
  };
  [[nodiscard]] Nothing leave(auto&&...) { return {}; }
  [[nodiscard]] Nothing enter_backward(auto&&...) { return {}; }
  [[nodiscard]] int tensor_ranks() const { return cpu_.tensor_ranks(); }
  [[nodiscard]] bool divides_rows() const { return cpu_.divides_rows(); }
  [[nodiscard]] zeroth::VocabularyPart rows(Param<2> const& words) const { return cpu_.rows(words); }
  [[nodiscard]] static std::int64_t first_own_row(auto&&...) { return 0; }
  void own_rows(Matrix<T> const& all, Matrix<T>& own) const {
    own.resize(all.rows() / cpu_.tensor_ranks(), all.cols());
  }
  [[nodiscard]] Nothing enter(Matrix<T> const& own, Matrix<T>& all) const {
    all.resize(own.rows() * cpu_.tensor_ranks(), own.cols());
    return {};
  }
  [[nodiscard]] Nothing leave_backward(Matrix<T> const& own, Matrix<T>& all) const { return enter(own, all); }
  void gelu(auto&&...) {}
  void add_column_sums(auto&&...) {}
  void layer_norm(auto&&...) {}
  void layer_norm_again(auto&&...) {}
  void layer_norm_backward(auto&&...) {}
  void drop_out(auto&&...) {}
  void add_dropped_out(auto&&...) {}
  void embed(auto&&...) {}
  void embed_part(auto&&...) {}
  void add_positions(auto&&...) {}
  void embed_backward(auto&&...) {}
  [[nodiscard]] float cross_entropy(auto&&...) { return 0; }
  void cross_entropy_backward(auto&&...) {}
  [[nodiscard]] float cross_entropy_of_part(Matrix<float> const& logits, Batch const& batch,
                                            zeroth::VocabularyPart const& /*words*/, SoftmaxTape<Cpu<T>>& tape) {
    cpu_.prepare(batch);
    tape.of_part.reserve(logits.rows());
    return 0;
  }
  void cross_entropy_backward_of_part(auto&&...) {}

 private:
  Cpu<T>& cpu_;
};

/// Units whose parameters and gradients have no memory.
template <zeroth::Element T, zeroth::GradientOf<T> G>
struct UnitsOfNothing {
  float beta;

  struct Guard {
    float beta;
    template <std::size_t D>
    [[nodiscard]] zeroth::View<T const, D> operator[](Param<D> const& param) const {
      return {nullptr, param.shape()};
    }
    template <std::size_t D>
    [[nodiscard]] zeroth::Gradient<G, D> grad(Param<D> const& param) const {
      return zeroth::detail::gradient_in<G>({.engine = nullptr, .data = nullptr, .beta = beta}, param.shape());
    }
  };
  [[nodiscard]] static zeroth::Random random(std::int64_t /*row*/, std::uint32_t /*use*/) { return {}; }
  [[nodiscard]] Guard forward(zeroth::Unit) const { return {beta}; }
  [[nodiscard]] Guard backward(zeroth::Unit) const { return {beta}; }
};

/// Rehearses micro-batches of `tokens` tokens with gradients of type G, through `part` of the units.
template <zeroth::Element G, zeroth::Element T>
void rehearse(Gpt<Cpu<T>> const& gpt, Cpu<T>& cpu, typename Gpt<Cpu<T>>::Workspace& workspace, std::int64_t tokens,
              typename Gpt<Cpu<T>>::Part const& part) {
  Batch batch;
  batch.inputs.resize(static_cast<std::size_t>(tokens));
  batch.targets.resize(batch.inputs.size());
  Rehearsal<T> rehearsal{cpu};
  for (float const beta : {0.0F, 1.0F}) {  // gradients that are overwritten, and gradients that are added to
    UnitsOfNothing<T, G> units{beta};
    PassOn pass{rehearsal, units};
    gpt.forward_body(pass, part, batch, workspace);
    if (part.head) {
      static_cast<void>(gpt.forward_head(pass, part, batch, workspace));
    }
    gpt.backward(pass, part, batch, workspace, 1.0F);
  }
}

/// Rehearses all units.
template <zeroth::Element G, zeroth::Element T>
void rehearse(Gpt<Cpu<T>> const& gpt, Cpu<T>& cpu, typename Gpt<Cpu<T>>::Workspace& workspace, std::int64_t tokens) {
  rehearse<G>(gpt, cpu, workspace, tokens, gpt.all());
}

}  // namespace gpt::cpu
