// SPDX-License-Identifier: Apache-2.0
/// Memory for the collectives of a case. It is the device's, which the host may be unable to read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "zeroth/device/device.hpp"

namespace zeroth::comm::conformance {

/// One rank's memory for all its cases: memory of its device, and as much host memory, through which bytes are copied
/// in and out. Allocated in large pieces, since allocating and freeing memory makes GPUs wait for each other.
class Workspace {
 public:
  explicit Workspace(device::Device& device);
  Workspace(Workspace const&) = delete;
  Workspace& operator=(Workspace const&) = delete;
  ~Workspace();

  struct Place {
    std::byte *device = nullptr, *host = nullptr;
  };
  /// Aligned to 64 bytes. Valid until as many places were returned as were taken.
  [[nodiscard]] Place take(std::int64_t bytes);
  void give_back() noexcept;
  /// The first large piece, which contains nearly all of the memory.
  [[nodiscard]] device::Memory const& first_piece();
  /// Copies between a place's two sides. Waits.
  void upload(Place const& place, std::int64_t bytes);
  void download(Place const& place, std::int64_t bytes);

 private:
  struct Piece {
    std::unique_ptr<device::Memory> device, host;
    std::int64_t used = 0;
  };
  [[nodiscard]] Piece& add_piece(std::int64_t bytes);
  [[nodiscard]] device::Stream& stream();

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;  // separate, so that copies wait for no other work
  std::vector<std::unique_ptr<Piece>> pieces_;
  int live_ = 0;
};

/// `values` in memory for collectives.
template <class T>
class Buffer {
 public:
  Buffer(Workspace& workspace, std::vector<T> const& values)
      : workspace_{&workspace}, count_{values.size()}, place_{workspace.take(bytes())} {
    write(values);
  }
  Buffer(Buffer&& other) noexcept
      : workspace_{std::exchange(other.workspace_, nullptr)}, count_{other.count_}, place_{other.place_} {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (workspace_ != nullptr) {
      workspace_->give_back();
    }
  }
  /// Never null, even if there are no elements.
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(place_.device); }
  [[nodiscard]] std::int64_t count() const noexcept { return static_cast<std::int64_t>(count_); }

  void write(std::vector<T> const& values) {
    if (count_ > 0) {
      std::memcpy(place_.host, values.data(), count_ * sizeof(T));
      workspace_->upload(place_, bytes());
    }
  }
  /// The content, once the work on it has passed.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    if (count_ > 0) {
      workspace_->download(place_, bytes());
      std::memcpy(values.data(), place_.host, count_ * sizeof(T));
    }
    return values;
  }

 private:
  [[nodiscard]] std::int64_t bytes() const noexcept { return static_cast<std::int64_t>(count_ * sizeof(T)); }

  Workspace* workspace_;
  std::size_t count_;
  Workspace::Place place_;
};

}  // namespace zeroth::comm::conformance
