// SPDX-License-Identifier: Apache-2.0
/// The part of Muon's step that needs whole matrices.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "shard/matrix_homes.hpp"
#include "shard/matrix_memory.hpp"
#include "shard/memory.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/model/cut.hpp"
#include "zeroth/optim/muon.hpp"

namespace zeroth::shard {

/// Computes the directions of a step: each rank those of its optimizer's elements. They are sent to the homes of their
/// matrices in bf16, made orthogonal there, and sent back. So each matrix is computed once, and its bits do not depend
/// on how states are sharded. Parts of tensor ranks are joined on one of these. Only for an optimizer that has a rule
/// for matrices.
///
/// Matrices travel in batches of up to Settings::reduce_bucket_count elements. All batches are sent to their homes
/// first, and each returns once it is computed. So later batches travel while a home computes, and units of a batch are
/// updated while later ones are computed.
class MatrixDirections {
 public:
  explicit MatrixDirections(Memory& memory);

  /// Enqueues all of it, for all matrices. Call after the decision. Collective.
  void compute();
  /// Makes the compute stream wait for the directions of `flat`.
  void await(FlatId flat);
  /// Sets the direction as the gradient of an update of `elements` of `flat`, counted from the optimizer's first one.
  void direct(FlatId flat, Range elements, optim::UpdateArgs& args) const noexcept;
  /// The flat units of matrices that have elements.
  [[nodiscard]] std::vector<FlatId> const& flats() const noexcept { return flats_; }
  /// Bytes passed to collectives so far, over all ranks.
  [[nodiscard]] MovedBytes const& moved() const noexcept { return moved_; }

 private:
  using Messages = std::vector<comm::Collective>;
  /// A copy of a piece that a home has itself.
  struct Copy {
    std::byte *staged, *home;
    std::int64_t bytes;
  };
  /// Matrices that travel together.
  struct Batch {
    explicit Batch(device::Device& device)
        : arrived{device.make_event()}, computed{device.make_event()}, returned{device.make_event()} {}
    std::vector<HomedMatrix const*> matrices;
    Messages to_homes, back;                            // pieces of slices
    Messages to_tensor_homes, back_from_them;           // parts of tensor ranks
    std::vector<Copy> copies;                           // of a home's own pieces
    std::int64_t sent_count = 0, sent_parts_count = 0;  // elements of one exchange, over all ranks
    std::unique_ptr<device::Event> arrived, computed, returned;
  };
  /// Which way elements of parts go between tensor ranks, or between parts and the joined matrix.
  enum class Way : bool { to_home, back };

  [[nodiscard]] bool is_home(HomedMatrix const& matrix) const noexcept { return matrix.home == own_; }
  [[nodiscard]] bool computes(HomedMatrix const& matrix) const noexcept;
  void cut_batches();
  void plan_pieces(HomedMatrix const& matrix, Batch& batch);
  void plan_parts(HomedMatrix const& matrix, Batch& batch);
  void add_own(Messages& messages) const;
  void prepare();
  [[nodiscard]] optim::OrthogonalArgs work_on(HomedMatrix const& matrix) const noexcept;
  void compute_directions();
  void send(Batch const& batch);
  void compute(Batch const& batch);
  void compute(HomedMatrix const& matrix);
  void copy_parts(HomedMatrix const& matrix, Way way);
  void find_cuts(HomedMatrix const& matrix);
  void exchange(std::string_view purpose, comm::Communicator& among, FlatId first, Messages const& messages,
                comm::Collective const& together);
  void exchange_pieces(std::string_view purpose, Batch const& batch, Messages const& messages);
  void exchange_parts(std::string_view purpose, Batch const& batch, Messages const& messages);

  Memory* memory_;
  optim::Muon const* rule_;
  MatrixHomes homes_;
  MatrixMemory at_;
  comm::Communicator* among_;                        // the ranks that share matrices
  int own_;                                          // this one's index among them
  ById<ParamId, std::vector<model::CutPart>> cuts_;  // of the matrices that this rank joins: their parts
  std::vector<FlatId> flats_;
  std::vector<Batch> batches_;
  ById<FlatId, std::size_t> last_batch_;  // of each of flats_
  std::unique_ptr<device::Event> ready_;
  MovedBytes moved_;
};

}  // namespace zeroth::shard
