// SPDX-License-Identifier: Apache-2.0
/// Offloaded states that are updated in the device's memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shard/offloaded_states.hpp"

namespace zeroth::shard {

/// The tiles of a plan in turn, over and over. Each is read if the plan's updates read, updated on the compute stream,
/// and written. The memory that a tile is written from is the next to be read into. A read waits for a write of an
/// earlier update, a write for its update, an update for its own read.
class SwappedStates : public OffloadedStates {
 public:
  explicit SwappedStates(Parts parts);
  ~SwappedStates() override { stop(); }
  void acquire(optim::UpdateArgs& args) override;
  void release() override;

 protected:
  /// The addresses of the next tile's states, valid in the compute stream's order until release().
  [[nodiscard]] std::array<std::byte*, most_updated> acquire_tile();
  /// For states stored as slices of several ranks: release() calls `publish` before all of them are written.
  void set_tile_publish(Publish const& publish) { publish_ = publish; }

 private:
  enum class Of : bool { own, all };
  [[nodiscard]] std::span<device::StoredPiece const> pieces(std::int64_t number, Of slices);
  [[nodiscard]] std::byte* tile_memory(std::int64_t number) noexcept;
  [[nodiscard]] std::int64_t bytes_of_slice(std::int64_t number, StoredState const& state) const noexcept;
  void read_next();

  Publish publish_;
  std::unique_ptr<device::Event> published_;
  std::vector<device::StoredPiece> pieces_;  // see pieces()
};

}  // namespace zeroth::shard
