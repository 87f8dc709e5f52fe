// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/block.hpp"

#include <cstring>
#include <optional>

namespace zeroth::testing::ptx {

Block::Block(Kernel const& of_kernel, Launch const& of_launch)
    : kernel{of_kernel},
      launch{of_launch},
      global{of_launch.find_memory},
      shared{of_kernel.shared_bytes},
      copies{of_launch.threads} {
  for (unsigned first = 0; first < launch.threads; first += warp_lanes) {
    warps_.emplace_back(*this, static_cast<int>(first / warp_lanes));
  }
}

void Block::run(unsigned index) {
  index_ = index;
  global.start(index);
  shared.start();
  copies.start();
  local.assign(kernel.local_bytes * launch.threads, std::byte{0xff});
  for (auto& warp : warps_) {
    warp.start();
  }
  backwards_ = launch.behaviour.backwards;
  while (run_to_barrier()) {
    global.barrier();
    shared.barrier();
  }
}

bool Block::run_to_barrier() {
  struct At {
    std::optional<std::uint32_t> barrier;
    Warp* warp = nullptr;
  };
  std::optional<At> first;
  for (std::size_t n = 0; n < warps_.size(); ++n) {
    Warp& warp = warps_[backwards_ ? warps_.size() - 1 - n : n];
    try {
      At const at{warp.run(), &warp};
      if (first && first->barrier != at.barrier) {
        throw Fault{at.barrier && first->barrier ? "warps wait at different barriers"
                                                 : "some warps wait at a barrier, others have ended"};
      }
      first = first ? first : at;
    } catch (Fault const& fault) {
      throw Fault{kernel.name + ", " + warp.where() + ", block " + std::to_string(index_) + ": " + fault.what()};
    }
  }
  return first->barrier.has_value();
}

Traffic run(Kernel const& kernel, Launch const& launch) {
  bool const fits = launch.threads > 0 && launch.threads <= 1024 && launch.blocks > 0;
  if (!fits || (kernel.max_threads > 0 && launch.threads > static_cast<unsigned>(kernel.max_threads))) {
    throw Fault{kernel.name + ": " + std::to_string(launch.threads) + " threads in " + std::to_string(launch.blocks) +
                " blocks"};
  }
  if (launch.threads % warp_lanes != 0) {
    throw Fault{kernel.name + ": " + std::to_string(launch.threads) + " threads are no whole warps"};
  }
  if (launch.arguments.size() != kernel.parameter_bytes) {
    throw Fault{kernel.name + ": " + std::to_string(launch.arguments.size()) + " bytes of arguments"};
  }
  Block block{kernel, launch};
  for (unsigned n = 0; n < launch.blocks; ++n) {
    block.run(launch.behaviour.backwards ? launch.blocks - 1 - n : n);
  }
  return block.traffic;
}

}  // namespace zeroth::testing::ptx
