// SPDX-License-Identifier: Apache-2.0
/// Joins the parts of a parameter that tensor ranks divide, in the order of the whole parameter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zeroth/model/cut.hpp"

namespace zeroth::engine {

/// Merges the elements that tensor ranks send into the order of the whole parameter. In that order each rank's elements
/// keep their own order, so a rank never holds more than one piece of each part.
class MergedParts {
 public:
  /// Fills `piece` with the next elements of tensor rank `index`, padding too.
  using Receive = std::function<void(int index, std::span<float> piece)>;
  using Take = std::function<void(std::span<float const> values)>;  ///< Takes the next elements of the whole.

  /// `parts` are those of all tensor ranks. `buffers` hold a piece of each part, and must outlive this. The elements of
  /// rank `own` are pushed and all others received; if `own` is negative, all are received.
  MergedParts(std::vector<model::CutPart> parts, std::vector<std::span<float>> buffers, int own, Receive receive,
              Take take);

  /// The next elements of rank `own`.
  void push(std::span<float const> values);
  /// Call when all elements of `own` were pushed.
  void finish();

 private:
  struct Stream {
    std::int64_t taken = 0, received = 0;  // numbers of elements of the part
    std::span<float const> left;           // received or pushed, not yet taken
  };
  [[nodiscard]] bool has_next(std::size_t index);
  void consume(std::size_t index, std::int64_t count) noexcept;
  void drop_padding(std::size_t index);
  void merge();

  std::vector<model::CutPart> parts_;
  std::vector<std::span<float>> buffers_;
  std::vector<Stream> streams_;
  int own_;
  Receive receive_;
  Take take_;
  std::int64_t merged_ = 0;
};

}  // namespace zeroth::engine
