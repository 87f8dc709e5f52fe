// SPDX-License-Identifier: Apache-2.0
/// A parameter that tensor ranks cut, in the order of the whole, from what each of them has in its own order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "zeroth/model/cut.hpp"

namespace zeroth::engine {

/// Merges what tensor ranks send. In the order of the whole the elements of each come in its own order, so that nothing
/// waits but the next piece of each: no rank holds more.
class MergedParts {
 public:
  /// Fills `piece` with the next elements of tensor rank `index`, padding too.
  using Receive = std::function<void(int index, std::span<float> piece)>;
  using Take = std::function<void(std::span<float const> values)>;  ///< Of the whole, the next ones.

  /// `parts` are those of all tensor ranks. `buffers` hold a piece of each, and outlive this. The elements of rank
  /// `own` are pushed, those of all others received; below 0: of all.
  MergedParts(std::vector<model::CutPart> parts, std::vector<std::span<float>> buffers, int own, Receive receive,
              Take take);

  /// The next elements of rank `own`.
  void push(std::span<float const> values);
  /// Once all of its own were pushed.
  void finish();

 private:
  struct Stream {
    std::int64_t taken = 0, received = 0;  // elements of the part
    std::span<float const> left;           // received, and not taken
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
