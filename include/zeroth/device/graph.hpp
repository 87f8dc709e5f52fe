// SPDX-License-Identifier: Apache-2.0
/// Work that was captured once, for launches that cost the host one call.
#pragma once
#include "zeroth/core/export.hpp"

namespace zeroth::device {

/// A CUDA graph: work of several streams, with its arguments. Made by Device::end_capture(). Destroy it before the
/// device and the memory that it works on.
class ZEROTH_EXPORT Graph {
 public:
  Graph() = default;
  Graph(Graph const&) = delete;
  Graph& operator=(Graph const&) = delete;
  virtual ~Graph() = default;
  /// Enqueues the captured work after all earlier work of compute and of the captured streams; later work of these
  /// streams follows it.
  virtual void launch() = 0;
};

}  // namespace zeroth::device
