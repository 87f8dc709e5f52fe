// SPDX-License-Identifier: Apache-2.0
/// Parameters on a disk: gathers read them, and updates write them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shard/home.hpp"
#include "shard/memory_plan.hpp"
#include "shard/swap_queue.hpp"
#include "shard/swapped_states.hpp"
#include "zeroth/device/device.hpp"

namespace zeroth::shard {

/// A rank's elements of gathered flat units come from its file in pieces, through a separate queue. The read stream
/// fills buffers in the order of gathers, and the gathering stream takes pieces from there. A read waits for the writes
/// of the last update. Updates take tiles of the trainable parameters, as they take states.
class OffloadedParameters final : public SwappedStates, public ParameterHome {
 public:
  /// All arguments must outlive this; `check` is passed to the storage.
  OffloadedParameters(device::Device& device, Layout const& layout, MemoryPlan const& plan, PlanRequest const& request,
                      int place, std::function<void()> check);
  ~OffloadedParameters() override { stop(); }

  [[nodiscard]] bool has(FlatId flat) const noexcept { return plan_->flats[flat].parameters_on_disk >= 0; }
  [[nodiscard]] OnDisk offloaded(FlatId flat, bool trainable) noexcept override;

  [[nodiscard]] bool reads_ahead() const noexcept override { return offload().reads_ahead; }
  void read_ahead(FlatId flat) override;
  void bring(FlatId flat, device::Stream& stream, std::byte* trainable, std::byte* frozen) override;
  void await(FlatId flat) override;
  void drop() override;

  void acquire(optim::UpdateArgs& args) override;
  void round(optim::UpdateArgs const& args) override;
  void release() override { SwappedStates::release(); }
  void note_updated(FlatId flat) override { writes().record(*written_[flat]); }
  void set_publish(Publish const& publish) override { set_tile_publish(publish); }

  /// Milliseconds that updates, and the compute stream's waits for gathers, were held up.
  [[nodiscard]] double held_up_ms() const override;

 private:
  /// Elements of a part that come in one buffer.
  struct Piece {
    bool trainable = true;
    Range elements;
  };
  [[nodiscard]] std::vector<Piece> cut(FlatId flat) const;
  [[nodiscard]] std::byte* gather_buffer(std::int64_t piece) const noexcept;
  [[nodiscard]] PrecisionSettings precision(FlatId flat) const noexcept {
    return precision_of(unit(flat), request_->settings);
  }
  /// The flat unit of the acquired tile.
  [[nodiscard]] FlatId acquired() noexcept { return tile(queue().released()).flat; }
  /// Reads pieces of the last flat unit in ahead_ until all buffers are full. True if all of its pieces are read.
  bool read_more();
  void read_piece(FlatId flat, std::size_t number);

  MemoryPlan const* plan_;
  PlanRequest const* request_;
  std::byte* rounded_ = nullptr;  // the acquired tile
  SwapQueue gathers_;
  ById<FlatId, std::vector<Piece>> pieces_;
  std::vector<FlatId> ahead_;       // begun and not brought; all but the last are read completely
  std::size_t pieces_of_last_ = 0;  // pieces of the last one that are read
  ById<FlatId, std::unique_ptr<device::Event>> written_, arrived_;
  std::unique_ptr<device::Stream> gather_waits_;  // the compute stream, whose waits for pieces are counted too
};

}  // namespace zeroth::shard
