// SPDX-License-Identifier: Apache-2.0
/// The ranks of a job as a grid: stages of a pipeline, each of several ranks that share its states.
#pragma once
#include <optional>

#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

namespace engine {
class Runtime;
}

/// What the ranks of a job are to each other. Axes, the outermost first: pipeline, data. Rank r is at place r % D of
/// stage r / D, where D is the job's ranks divided by the stages. Engines are built on a mesh, which outlives them and
/// neither moves nor copies.
class ZEROTH_EXPORT Mesh {
 public:
  /// Where a rank is along an axis.
  struct Axis {
    int index;  ///< Counted from 0.
    int size;   ///< Ranks along the axis.
  };
  /// Where a rank is.
  struct Place {
    int stage;  ///< The stage of the pipeline that it is in.
    int data;   ///< Its number among the ranks of the stage.
  };

  /// Divides the ranks as the file's zeroth.mesh says. Collective on `job`, which outlives it; waits. Throws
  /// ConfigError where the stages do not divide the ranks.
  Mesh(Job& job, Config const& config);
  Mesh(Mesh const&) = delete;
  Mesh& operator=(Mesh const&) = delete;
  ~Mesh();

  [[nodiscard]] Job& whole() noexcept { return *whole_; }  ///< All ranks.
  /// The ranks of this stage, among whom states and batches are cut. With one stage this is whole().
  [[nodiscard]] Job& data() noexcept { return data_ ? *data_ : *whole_; }
  [[nodiscard]] Axis pipeline() const noexcept { return pipeline_; }  ///< This rank's stage, of how many.
  [[nodiscard]] Place place() const noexcept { return place_; }       ///< Where this rank is.

 private:
  friend class engine::Runtime;
  Job* whole_;
  std::optional<Job> data_, stages_;  // of this stage; of this place in all stages
  Axis pipeline_;
  Place place_;
};

}  // namespace zeroth
