// SPDX-License-Identifier: Apache-2.0
/// Storage besides a device's own memory, on disk or in host memory, which streams read and write.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth::device {

class Stream;

/// Options of Device::make_storage().
struct StorageOptions {
  std::filesystem::path folder;                       ///< A folder on the disk to use.
  std::int64_t bytes = 0;                             ///< Size; a multiple of 4096. Zero-filled.
  std::int64_t piece_bytes = std::int64_t{1} << 20U;  ///< Bytes per disk request; a multiple of 4096.
  int requests = 8;                                   ///< Max concurrent requests.
  std::chrono::milliseconds timeout{600'000};         ///< Time limit for a piece.

  /// Called a few times a second by streams that wait for transfers. Throws if the transfers are no longer needed, such
  /// as at the end of the job; its exception ends them. Empty: never.
  std::function<void()> check = {};
  std::string_view contents = "states";  ///< The name of the contents, for messages, in the plural. Must outlive the
                                         ///< storage.
};

/// A position in storage, and its description in messages. The views must outlive the work.
struct Stored {
  std::int64_t position = 0;  ///< Byte offset; a multiple of 4096.
  std::string_view state;     ///< "exp_avg"
  std::string_view unit;      ///< The unit that it belongs to.
};

/// A piece to move between storage and memory.
struct StoredPiece {
  Stored at;                    ///< Position in storage.
  std::span<std::byte> memory;  ///< Source of a write, or destination of a read.
};

/// Storage of one rank. Nothing of it outlives the process, however that ends. Any thread may enqueue, on streams of
/// the same device. A stream that reads what another one writes must wait for it.
///
/// Errors: a disk error, or a piece that takes longer than the timeout, fails the stream's device with a SystemError,
/// which has folder, bytes, state, unit and the reason. So does a failed copy from or to host memory. An exception of
/// StorageOptions::check fails the device too.
class ZEROTH_EXPORT Storage {
 public:
  Storage() = default;
  Storage(Storage const&) = delete;
  Storage& operator=(Storage const&) = delete;
  virtual ~Storage() = default;
  /// Reads all `pieces` concurrently on `stream`. Their memory is aligned to 4096 bytes, and its size is a multiple of
  /// that.
  virtual void read(Stream& stream, std::span<StoredPiece const> pieces) = 0;
  /// Writes all `pieces` concurrently on `stream`, with the same alignment.
  virtual void write(Stream& stream, std::span<StoredPiece const> pieces) = 0;
  /// Reads one piece.
  void read(Stream& stream, Stored const& from, std::span<std::byte> memory) {
    StoredPiece const piece{from, memory};
    read(stream, std::span{&piece, 1});
  }
  /// Writes one piece.
  void write(Stream& stream, Stored const& to, std::span<std::byte const> memory) {
    StoredPiece const piece{to, {const_cast<std::byte*>(memory.data()), memory.size()}};  // which is only read
    write(stream, std::span{&piece, 1});
  }
  /// The bytes, if host and device can access them like memory of Device::allocate_host(). Null if only read() and
  /// write() can.
  [[nodiscard]] virtual std::byte* data() const noexcept { return nullptr; }
  /// Bytes in use: file-system blocks on disk, or the requested size in host memory.
  [[nodiscard]] virtual std::int64_t bytes_taken() const = 0;
  /// A warning about the file system for the user, one sentence without a full stop; empty if there is none.
  [[nodiscard]] virtual std::string_view warning() const noexcept { return {}; }
  /// Whether the disk may still access memory after a timeout. If so, that memory must not be freed.
  [[nodiscard]] virtual bool stuck() const noexcept { return false; }
};

}  // namespace zeroth::device
