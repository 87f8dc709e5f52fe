// SPDX-License-Identifier: Apache-2.0
/// The part of Muon's step that needs whole matrices.
#pragma once
#include <memory>
#include <vector>

#include "shard/matrix_homes.hpp"
#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::shard {

/// Computes the directions of a step: each rank those of its optimizer's elements. They are sent to the homes of their
/// matrices in bf16, made orthogonal there, and sent back. So each matrix is computed once, and its bits do not depend
/// on how states are sharded. Only for an optimizer that has a rule for matrices.
class MatrixDirections {
 public:
  explicit MatrixDirections(Memory& memory);

  /// Enqueues all of it, for all matrices. Call after the decision. Collective.
  void compute();
  /// Sets the direction as the gradient of an update of `elements` of `flat`, counted from the optimizer's first one.
  void direct(FlatId flat, Range elements, optim::UpdateArgs& args) const noexcept;
  /// The flat units of matrices that have elements.
  [[nodiscard]] std::vector<FlatId> const& flats() const noexcept { return flats_; }
  /// Bytes passed to collectives so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return moved_; }

 private:
  /// A copy of a piece that a home has itself.
  struct Copy {
    std::byte *staged, *home;
    std::int64_t bytes;
  };
  [[nodiscard]] std::byte* staged(HomedMatrix const& matrix, std::int64_t element) const noexcept;
  void plan_exchange();
  void prepare();
  [[nodiscard]] optim::OrthogonalArgs work_on(HomedMatrix const& matrix) const noexcept;
  void add_own(std::vector<comm::Collective>& messages) const;
  void exchange(std::string_view purpose, std::vector<comm::Collective> const& messages);

  Memory* memory_;
  optim::Muon const* rule_;
  MatrixHomes homes_;
  std::byte *staged_, *home_, *workspace_;
  std::vector<FlatId> flats_;
  std::vector<comm::Collective> to_homes_, back_;
  std::vector<Copy> copies_;
  std::int64_t sent_count_ = 0;  // elements of one exchange, over all ranks
  std::unique_ptr<device::Event> ready_, arrived_;
  MovedBytes moved_;
};

}  // namespace zeroth::shard
