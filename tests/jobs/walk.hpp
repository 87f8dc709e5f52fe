// SPDX-License-Identifier: Apache-2.0
/// Forward and backward of a drawn job, whose "math" are cheap functions of parameters, sample and element. What ranks
/// do differently follows the number of the micro-step in the global batch, whoever makes it.
#pragma once
#include <cstddef>
#include <vector>

#include "jobs/built_model.hpp"
#include "jobs/drawn.hpp"
#include "zeroth/engine/any_engine.hpp"

namespace zeroth::testing::jobs {

/// Where a job is.
struct At {
  int step, micro;
};

class Walk {
 public:
  Walk(Drawn const& drawn, Choice const& choice, BuiltModel const& built, int place, int ranks);
  void train(AnyMicroStep& micro, At at, std::vector<Metric> const& metrics) const;
  void evaluate(AnyEvaluationPass& pass) const;
  /// The values of a unit's parameters as forward reads them.
  struct Values {
    std::size_t unit;
    std::vector<float> values;
  };
  [[nodiscard]] std::vector<Values> values(AnyEvaluationPass& pass) const;

  /// In the global batch.
  [[nodiscard]] int number(At at) const { return at.micro * ranks_ + place_; }
  [[nodiscard]] float weight(At at) const;
  [[nodiscard]] float weight_of_evaluation() const { return place_ == 0 ? 2.0F : 1.0F; }
  /// What random numbers add to the state of a unit's forward turn.
  template <class Pass>
  [[nodiscard]] double drawn(Pass const& pass, std::size_t unit) const {
    return choice_.is("random numbers", "none") ? 0 : mask(pass, unit, micro_batch_);
  }
  /// What an element of each gradient is; 0: what it should be.
  [[nodiscard]] float bad_gradient(At at) const;

 private:
  [[nodiscard]] std::vector<bool> skipped(At at) const;
  [[nodiscard]] double forward(AnyMicroStep& micro, std::vector<bool> const& skips) const;
  void backward(AnyMicroStep& micro, std::vector<bool> const& skips, double state, float seed, float bad) const;
  void backward_of(AnyMicroStep& micro, std::size_t unit, double state, float seed, float bad) const;
  Drawn const& drawn_;
  Choice const& choice_;
  BuiltModel const& built_;
  int place_, ranks_;
  std::int64_t micro_batch_;
  std::vector<std::size_t> order_;  // of forward
};

}  // namespace zeroth::testing::jobs
