// SPDX-License-Identifier: Apache-2.0
/// Graphs of the CUDA runtime for tests, and their execution.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "support/fake_cuda/fake_cuda.hpp"
#include "support/fake_cuda/machine.hpp"

/// CUDA does not define these types.
struct CUgraphNode_st {
  zeroth::testing::fake_cuda::Prepare prepare;
  std::set<std::size_t> after;          // nodes that streams and events order before this one
  std::optional<std::size_t> previous;  // the previous node of the same line
  bool in_line = false;
};

struct CUgraph_st {
  std::deque<CUgraphNode_st> nodes;
  std::size_t streams = 1;  // that were captured

  /// Adds a node and returns its number.
  std::size_t add(CUgraphNode_st node);
  /// From and to, in the order of the nodes that depend on others; with those of lines, or without.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> edges(bool with_lines) const;
  /// Whether each node is one of `last`, or before one of them.
  [[nodiscard]] std::vector<bool> reaching(std::set<std::size_t> const& last, bool with_lines) const;
};

namespace zeroth::testing::fake_cuda {

/// The work of an executable graph at a launch. Shared with launches in progress.
class Executable {
 public:
  /// Without dependency edge number `dropped`, which must exist.
  Executable(CUgraph_st const& graph, std::optional<std::size_t> dropped, unsigned seed, unsigned delays);
  /// The work of one launch, for its stream. Launches run one after another, on any streams.
  [[nodiscard]] static std::function<void()> prepare(std::shared_ptr<Executable> const& executable);
  /// Whether the edge that was dropped is implied by others.
  [[nodiscard]] bool redundant() const noexcept { return redundant_; }

 private:
  friend class Launch;
  struct Step {
    Prepare prepare;
    std::vector<std::size_t> next;
    std::size_t after = 0;
  };
  void drop(CUgraph_st& graph, std::size_t number);

  std::vector<Step> steps_;
  std::size_t workers_;
  unsigned seed_, delays_, launches_ = 0;
  bool redundant_ = false;
  /// A step that starts after the start of another, which is in a line and may wait for other ranks.
  std::optional<std::pair<std::size_t, std::size_t>> late_;
  std::shared_ptr<Point> launched_ = std::make_shared<Point>();
};

}  // namespace zeroth::testing::fake_cuda

struct CUgraphExec_st {
  std::shared_ptr<zeroth::testing::fake_cuda::Executable> executable;
};
