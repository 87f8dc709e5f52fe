// SPDX-License-Identifier: Apache-2.0
/// Memory beside a device's own, on a disk or of the host: bytes that streams read and write.
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

/// What Device::make_storage() makes.
struct StorageOptions {
  std::filesystem::path folder;                       ///< On whose disk it is.
  std::int64_t bytes = 0;                             ///< Zeros at first. A multiple of 4096.
  std::int64_t piece_bytes = std::int64_t{1} << 20U;  ///< Of one request to the disk. A multiple of 4096.
  int requests = 8;                                   ///< Under way at once, at most.
  std::chrono::milliseconds timeout{600'000};         ///< How long the disk may take for a piece.

  /// Throws where nobody needs the disk any more, such as at the end of the job: what it throws ends all transfers that
  /// streams wait for. They ask while they wait, some times a second. Empty: that never comes.
  std::function<void()> check = {};
};

/// Where something is, and what a message calls it. The views outlive the work.
struct Stored {
  std::int64_t position = 0;  ///< In bytes. A multiple of 4096.
  std::string_view state;     ///< "exp_avg"
  std::string_view unit;      ///< Whose.
};

/// What is moved between there and memory.
struct StoredPiece {
  Stored at;                    ///< Where it is.
  std::span<std::byte> memory;  ///< What is there, or comes there.
};

/// A rank's own. No death leaves anything of it behind. Any thread may enqueue, on streams of the same device; who
/// reads what another stream writes waits for that.
///
/// Errors: a stream whose work meets an error of the disk, or a piece that is not done within the timeout, fails its
/// device with a SystemError: folder, bytes, state, unit and the reason. So does a copy from or to the host's memory
/// that is refused. What StorageOptions::check throws fails it likewise.
class ZEROTH_EXPORT Storage {
 public:
  Storage() = default;
  Storage(Storage const&) = delete;
  Storage& operator=(Storage const&) = delete;
  virtual ~Storage() = default;
  /// Fills the memory of `pieces` on `stream`, side by side: it is aligned to 4096 bytes and is a multiple of that.
  virtual void read(Stream& stream, std::span<StoredPiece const> pieces) = 0;
  /// Likewise writes it.
  virtual void write(Stream& stream, std::span<StoredPiece const> pieces) = 0;
  /// A piece alone.
  void read(Stream& stream, Stored const& from, std::span<std::byte> memory) {
    StoredPiece const piece{from, memory};
    read(stream, std::span{&piece, 1});
  }
  /// Likewise.
  void write(Stream& stream, Stored const& to, std::span<std::byte const> memory) {
    StoredPiece const piece{to, {const_cast<std::byte*>(memory.data()), memory.size()}};  // which is only read
    write(stream, std::span{&piece, 1});
  }
  /// Its bytes, where they are memory that host and device reach as they reach Device::allocate_host()'s. Null: read()
  /// and write() alone do.
  [[nodiscard]] virtual std::byte* data() const noexcept { return nullptr; }
  /// That it takes: of the disk, as its file system counts, or of the host's memory, as asked for.
  [[nodiscard]] virtual std::int64_t bytes_taken() const = 0;
  /// What the user should know of the file system, in a sentence without a full stop; empty: nothing.
  [[nodiscard]] virtual std::string_view warning() const noexcept { return {}; }
  /// Is the disk still busy with memory that it was given, beyond its time? Then that must stay.
  [[nodiscard]] virtual bool stuck() const noexcept { return false; }
};

}  // namespace zeroth::device
