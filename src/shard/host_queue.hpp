// SPDX-License-Identifier: Apache-2.0
/// Tiles of the optimizer's states that the host updates where they are, beside a GPU.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "device/host_update.hpp"
#include "shard/memory_plan.hpp"
#include "shard/moved_bytes.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::shard {

/// What an update of a tile takes from the device's memory, and brings there.
struct HostTile {
  std::string_view unit;
  std::span<std::byte const> gradient;
  std::span<std::byte> parameters;
  bool takes_parameters = false;  ///< Too: they are the masters.
  /// Of each thread that updates, one after the other. The states are there already; what comes and goes is the
  /// queue's to say.
  std::vector<optim::UpdateArgs> shares{};
  std::vector<std::vector<optim::Segment>> segments{};
  device::HostUpdate update{};  ///< The queue's.
};

/// The tiles of a plan in turn. Gradients come to the host on the write stream, the host updates in the order
/// of a stream of its own, and new parameters go on the read stream. That stream is a queue as the others are,
/// and the host's work an element of it: its order among copies is known to CUDA, which flags in memory would hide. A
/// tile's memory is free when its parameters have gone; so each waits for what came before it, and nothing goes round
/// in a circle, nor waits for another rank.
class HostQueue {
 public:
  /// What it works with; all outlives it. In line with updates are the streams that are not `beside` them.
  struct Parts {
    device::Device* device = nullptr;
    device::Storage* storage = nullptr;
    device::Stream *reads = nullptr, *writes = nullptr, *updates = nullptr;
    DiskPlan const* plan = nullptr;
    int threads = 1;
    bool reads_beside = false, writes_beside = false, updates_beside = false;
  };
  explicit HostQueue(Parts const& parts);

  /// One for each tile of the plan. Before the first update.
  void set_tiles(std::vector<HostTile> tiles);
  /// A step's updates follow, by what is at `decided` in the compute stream's order.
  void begin(optim::StepScalars const& decided);
  void update(std::size_t tile);
  /// Makes the compute stream wait for all updates so far: for their parameters, and to write gradients anew.
  void end();
  /// As TileQueue's.
  [[nodiscard]] double held_up_ms() const;
  [[nodiscard]] DiskTraffic const& traffic() const noexcept { return traffic_; }

 private:
  struct Buffer {
    std::int64_t position = 0;
    std::unique_ptr<device::Event> ready, updated, free;
  };
  [[nodiscard]] Buffer& buffer(std::size_t tile) noexcept { return buffers_[tile % buffers_.size()]; }
  void take(HostTile const& tile, Buffer const& to);

  Parts parts_;
  std::unique_ptr<device::Memory> scalars_;  // optim::StepScalars
  device::HostTeam team_;
  std::vector<Buffer> buffers_;
  std::vector<HostTile> tiles_;
  std::unique_ptr<device::Event> begun_, ended_;
  std::unique_ptr<device::Stream> waits_;  // the compute stream, whose waits for updates are counted by themselves
  DiskTraffic traffic_;
};

}  // namespace zeroth::shard
