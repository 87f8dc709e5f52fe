// SPDX-License-Identifier: Apache-2.0
/// The ranks of a job as a grid of pipeline stages, data-parallel ranks and tensor-parallel ranks.
#pragma once
#include <memory>
#include <optional>

#include "zeroth/comm/job.hpp"
#include "zeroth/config/config.hpp"
#include "zeroth/core/export.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth {

namespace engine {
class Runtime;
}

/// The grid of a job's ranks. Its axes, outermost first, are pipeline, data and tensor. With D ranks along data and T
/// along tensor, rank (stage * D + data) * T + tensor has these coordinates. Engines are built on a mesh, which must
/// outlive them. It is neither movable nor copyable.
class ZEROTH_EXPORT Mesh {
 public:
  /// A rank's position along an axis.
  struct Axis {
    int index;  ///< From 0.
    int size;   ///< Number of ranks along the axis.
  };
  /// A rank's coordinates.
  struct Place {
    int stage;   ///< Its pipeline stage.
    int data;    ///< Its index among the ranks of the stage with the same part of parameters.
    int tensor;  ///< The part of parameters that it holds.
  };

  /// Divides the ranks as the file's zeroth.mesh says. Collective on `job`, which must outlive the mesh; waits. On GPUs
  /// with several tensor ranks, all engines and TensorParallels of a mesh compute on one stream: the one given to
  /// Job::compute_on() before, or else one that the mesh makes. Throws ConfigError if stages times tensor ranks do not
  /// divide the number of ranks.
  Mesh(Job& job, Config const& config);
  Mesh(Mesh const&) = delete;
  Mesh& operator=(Mesh const&) = delete;
  ~Mesh();

  [[nodiscard]] Job& whole() noexcept { return *whole_; }  ///< All ranks.
  /// The ranks of this stage with the same part of parameters; states and batches are sharded over them. Equals whole()
  /// if there is one stage and one tensor rank, as with parameter servers, whose ranks it includes.
  [[nodiscard]] Job& data() noexcept { return data_ ? *data_ : *whole_; }
  /// The ranks that divide parameters among themselves and see the same samples: the argument of TensorParallel.
  [[nodiscard]] Job& tensor() noexcept { return *tensor_; }
  /// This rank's part of divided parameters: the argument of Model.
  [[nodiscard]] TensorPart tensor_part() const noexcept { return tensor_part_; }
  [[nodiscard]] Axis pipeline() const noexcept { return pipeline_; }  ///< This rank's stage, and the number of stages.
  [[nodiscard]] Place place() const noexcept { return place_; }       ///< This rank's coordinates.

 private:
  friend class engine::Runtime;
  void share_compute_stream();

  Job* whole_;
  std::unique_ptr<device::Device> device_;     // has the stream that the mesh makes; null without one
  std::optional<Job> data_, tensor_, stages_;  // each varies along one axis
  std::optional<Job> model_;                   // ranks that together hold the model once, if parameters are divided
  Axis pipeline_;
  TensorPart tensor_part_;
  Place place_;
};

}  // namespace zeroth
