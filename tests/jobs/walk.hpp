// SPDX-License-Identifier: Apache-2.0
/// Forward and backward of a drawn job, whose "math" consists of cheap functions of parameters, sample and element.
/// Differences between ranks depend on the number of the micro-step in the global batch, not on the rank that runs it.
#pragma once
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "jobs/arithmetic.hpp"
#include "jobs/built_model.hpp"
#include "jobs/drawn.hpp"
#include "jobs/kept_inputs.hpp"
#include "jobs/tensor_sums.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::testing::jobs {

/// The position of a job.
struct At {
  int step, micro;
};

class Walk {
 public:
  /// `tensor` is null without tensor ranks, `kept` without a store. Writes to the padding of gradients unless it is
  /// spared.
  Walk(Drawn const& drawn, Choice const& choice, BuiltModel const& built, int place, int ranks, TensorSums* tensor,
       bool spares_padding, KeptInputs* kept = nullptr);
  void train(AnyMicroStep& micro, At at, std::vector<Metric> const& metrics) const;
  void evaluate(AnyEvaluationPass& pass) const;
  /// The values of a unit's parameters as forward reads them.
  struct Values {
    std::size_t unit;
    std::vector<float> values;
  };
  [[nodiscard]] std::vector<Values> values(AnyEvaluationPass& pass) const;

  /// The number of the micro-step in the global batch.
  [[nodiscard]] int number(At at) const { return at.micro * ranks_ + place_; }
  [[nodiscard]] float weight(At at) const;
  [[nodiscard]] float weight_of_evaluation() const { return place_ == 0 ? 2.0F : 1.0F; }
  /// All values that a unit uses and that all tensor ranks have, in one number.
  [[nodiscard]] double read(AnyParams const& p, BuiltUnit const& unit) const {
    auto const own = jobs::read(p, unit);
    return tensor_ == nullptr ? own : tensor_->forward(own);
  }
  /// The values, common to all tensor ranks, that recomputation of a unit uses. During their exchange, `work` is called
  /// with values that only this rank has.
  template <class Work>
  [[nodiscard]] double seen(AnyParams const& p, BuiltUnit const& unit, double state, double drawn,
                            Work const& work) const {
    auto const own = jobs::read(p, unit);
    auto const sum = tensor_ == nullptr ? std::function<double()>{} : tensor_->backward(state, own);
    work(std::tanh(state + own + drawn));
    return std::tanh(state + (sum ? sum() : own) + drawn);
  }
  /// Adds to the gradients of all parameters that the unit trains. The state of `sample` is that before the unit.
  void contribute(AnyBackward const& p, BuiltUnit const& unit, double drawn, Sample const& sample) const;
  /// `sample` for gradients that only this tensor rank has.
  [[nodiscard]] Sample in_part(Sample sample) const {
    sample.spares_padding = spares_padding_;
    sample.number += tensor_ == nullptr ? 0 : 7919 * tensor_->index();
    return sample;
  }
  /// The contribution of random numbers to the state of a unit's forward turn.
  template <class Pass>
  [[nodiscard]] double drawn(Pass const& pass, std::size_t unit) const {
    return choice_.is("random numbers", "none") ? 0 : mask(pass, unit, micro_batch_);
  }
  /// A wrong value for an element of each gradient; 0: none is wrong.
  [[nodiscard]] float bad_gradient(At at) const;

 private:
  [[nodiscard]] std::vector<bool> skipped(At at) const;
  [[nodiscard]] double forward(AnyMicroStep& micro, std::vector<bool> const& skips) const;
  void backward(AnyMicroStep& micro, std::vector<bool> const& skips, double state, float seed, float bad) const;
  void backward_of(AnyMicroStep& micro, std::size_t unit, double state, float seed, float bad) const;
  Drawn const& drawn_;
  Choice const& choice_;
  BuiltModel const& built_;
  TensorSums* tensor_;
  int place_, ranks_;
  bool spares_padding_;
  KeptInputs* kept_;
  std::int64_t micro_batch_;
  std::vector<std::size_t> order_;  // of forward
};

}  // namespace zeroth::testing::jobs
