// SPDX-License-Identifier: Apache-2.0
/// The ranks of a job as a grid: stages of a pipeline, ranks that share states, and ranks that divide parameters.
#pragma once
#include <optional>

#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth {

namespace engine {
class Runtime;
}

/// What the ranks of a job are to each other. Axes, the outermost first: pipeline, data, tensor. With D ranks along
/// data and T along tensor, rank (stage * D + data) * T + tensor is at that place. Engines are built on a mesh, which
/// outlives them and neither moves nor copies.
class ZEROTH_EXPORT Mesh {
 public:
  /// Where a rank is along an axis.
  struct Axis {
    int index;  ///< Counted from 0.
    int size;   ///< Ranks along the axis.
  };
  /// Where a rank is.
  struct Place {
    int stage;   ///< The stage of the pipeline that it is in.
    int data;    ///< Its number among the ranks of the stage that have the same part of parameters.
    int tensor;  ///< The part of parameters that it has.
  };

  /// Divides the ranks as the file's zeroth.mesh says. Collective on `job`, which outlives it; waits. Throws
  /// ConfigError where stages times tensor ranks do not divide them.
  Mesh(Job& job, Config const& config);
  Mesh(Mesh const&) = delete;
  Mesh& operator=(Mesh const&) = delete;
  ~Mesh();

  [[nodiscard]] Job& whole() noexcept { return *whole_; }  ///< All ranks.
  /// The ranks of this stage that have the same part of parameters: states and batches are cut among them. This is
  /// whole() where there is one stage and one tensor rank.
  [[nodiscard]] Job& data() noexcept { return data_ ? *data_ : *whole_; }
  /// The ranks that divide parameters, and see the same samples: for TensorParallel.
  [[nodiscard]] Job& tensor() noexcept { return *tensor_; }
  /// What this rank has of parameters that are cut: for Model.
  [[nodiscard]] TensorPart tensor_part() const noexcept { return tensor_part_; }
  [[nodiscard]] Axis pipeline() const noexcept { return pipeline_; }  ///< This rank's stage, of how many.
  [[nodiscard]] Place place() const noexcept { return place_; }       ///< Where this rank is.

 private:
  friend class engine::Runtime;
  Job* whole_;
  std::optional<Job> data_, tensor_, stages_;  // ranks that differ along one axis
  std::optional<Job> model_;                   // those that have the model once together, where parameters are cut
  Axis pipeline_;
  TensorPart tensor_part_;
  Place place_;
};

}  // namespace zeroth
