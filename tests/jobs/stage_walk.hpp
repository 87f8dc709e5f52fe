// SPDX-License-Identifier: Apache-2.0
/// A drawn job's forward and backward by schedule(), on a mesh: the same numbers as by micro_steps(). Messages carry
/// the state of the walk, bit for bit, and bytes that identify each message.
#pragma once
#include <cstddef>
#include <vector>

#include "jobs/walk.hpp"

namespace zeroth::testing::jobs {

class StageWalk {
 public:
  /// `tapes`: the result of AnyEngine::in_flight().
  StageWalk(Drawn const& drawn, Choice const& choice, BuiltModel const& built, Walk const& walk, Dtype compute,
            int tapes)
      : drawn_{drawn},
        choice_{choice},
        built_{built},
        walk_{walk},
        dtype_{compute},
        tapes_(static_cast<std::size_t>(tapes)) {}
  /// Throws std::runtime_error if a message is not the expected one.
  void train(AnyWork& work, int step, std::vector<Metric> const& metrics);
  void evaluate(AnyEvaluationPass& pass) const;
  /// The values of the units of the chunk.
  [[nodiscard]] std::vector<Walk::Values> values(AnyEvaluationPass& pass) const;

 private:
  struct Use {
    double own, together;                    ///< Values that only this rank has, and those that all tensor ranks have.
    std::vector<std::vector<float>> values;  ///< The trained parameters.
  };
  struct Tape {
    double state = 0;  ///< The last unit's, once backward has begun.
    float seed = 0;
    std::vector<Use> uses;  ///< In the order of backward, if it is divided.
  };
  void forward(AnyWork& work, Tape& tape, At at, std::vector<Metric> const& metrics) const;
  void backward(AnyWork& work, Tape& tape, At at) const;
  void backward_inputs(AnyWork& work, Tape& tape) const;
  void backward_weights(AnyWork& work, Tape const& tape, At at) const;
  void check_messages(AnyWork const& work, Tape& tape) const;
  template <class Pass>
  [[nodiscard]] double go_forward(Pass& pass, double state) const;
  Drawn const& drawn_;
  Choice const& choice_;
  BuiltModel const& built_;
  Walk const& walk_;
  Dtype dtype_;
  std::vector<Tape> tapes_;
};

}  // namespace zeroth::testing::jobs
