// SPDX-License-Identifier: Apache-2.0
#include "device/file_storage.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "core/block_file.hpp"
#include "core/counter.hpp"
#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

/// Describes the file, for messages.
std::string what_is(StorageOptions const& options) {
  return fmt::format("the {} that are offloaded to a file", options.contents);
}

constexpr std::size_t most_at_once = 3;  // pieces per task
constexpr std::chrono::milliseconds between_checks{50};
constexpr std::chrono::milliseconds patience_at_the_end{500};  // for I/O that the disk has begun

/// The kind of the file system if it is not a disk of this machine, otherwise empty.
std::string_view odd_kind_of(std::filesystem::path const& folder) {
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0) {
    return {};
  }
  constexpr long cifs = 0xFF534D42, fuse = 0x65735546, lustre = 0x0BD00BD0;
  switch (static_cast<long>(system.f_type)) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC: return "is in memory, so offloading to it saves no memory";
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case V9FS_MAGIC:
    case CEPH_SUPER_MAGIC:
    case cifs:
    case fuse:
    case lustre: return "is on another machine or served by a program, which every step waits for";
    default: return {};
  }
}

}  // namespace

struct FileStorage::Shared {
  explicit Shared(StorageOptions const& given)
      : options{given}, what{what_is(given)}, file{what, BlockFile::Unnamed{given.folder}, given.bytes, Direct::on} {}

  /// A transfer that a stream waits for.
  struct Transfer {
    Way way = Way::read;
    std::int64_t position = 0, bytes = 0;
    std::byte* memory = nullptr;
    std::int64_t taken = 0;  // bytes that threads have taken
    std::exception_ptr error;
    Counter done;            // pieces done, over all uses of this Transfer
    std::uint32_t last = 0;  // the value of `done` after its last piece
  };

  [[nodiscard]] std::uint32_t pieces(std::int64_t bytes) const noexcept {
    return static_cast<std::uint32_t>((bytes + options.piece_bytes - 1) / options.piece_bytes);
  }
  void work();
  [[nodiscard]] Transfer& begin(Way way, std::int64_t position, std::byte* memory, std::int64_t bytes);
  void finish(Transfer& transfer, Stored const& at);
  [[nodiscard]] bool wait(Transfer& transfer);
  [[nodiscard]] std::exception_ptr check() const noexcept;
  std::uint32_t fail(Transfer& transfer, std::exception_ptr error) noexcept;

  StorageOptions options;
  std::string what;
  BlockFile file;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Transfer> transfers;  // as many as were ever needed at once
  std::vector<Transfer*> free, waiting;
  int busy = 0;                // threads in a disk call
  Clock::time_point moved_at;  // when the disk last finished a piece, or was given one while idle
  bool gave_up = false;        // whether a stream gave up while threads were busy
  bool ends = false;
};

FileStorage::FileStorage(StorageOptions const& options) : shared_{std::make_shared<Shared>(options)} {
  if (auto const odd = odd_kind_of(options.folder); !odd.empty()) {
    warning_ = fmt::format("{} {}", options.folder.string(), odd);
  } else if (!shared_->file.direct()) {
    warning_ = fmt::format("the file system of {} has no direct I/O: {} go through the system's file cache",
                           options.folder.string(), options.contents);
  }
  constexpr std::size_t at_once = 8 * most_at_once;  // for the streams and a save; more transfers allocate
  shared_->free.reserve(at_once);
  shared_->waiting.reserve(at_once);
  for (std::size_t i = 0; i < at_once; ++i) {
    shared_->free.push_back(&shared_->transfers.emplace_back());
  }
  auto const most = std::max(std::uint32_t{1}, shared_->pieces(options.bytes));
  auto const count = std::min(static_cast<std::uint32_t>(options.requests), most);
  try {
    for (std::uint32_t i = 0; i < count; ++i) {
      threads_.push_back(start_thread("requests to a disk", [shared = shared_] { shared->work(); }));
      pthread_setname_np(threads_.back().native_handle(), "disk");
    }
  } catch (...) {
    if (threads_.empty()) {  // fewer threads suffice
      throw;
    }
  }
}

FileStorage::~FileStorage() {
  bool const leaves = stuck();
  {
    std::lock_guard const lock{shared_->mutex};
    shared_->ends = true;
  }
  shared_->changed.notify_all();
  for (auto& thread : threads_) {
    leaves ? thread.detach() : thread.join();
  }
}

bool FileStorage::stuck() const noexcept {
  std::lock_guard const lock{shared_->mutex};
  return shared_->gave_up && shared_->busy > 0;
}

std::int64_t FileStorage::bytes_taken() const { return shared_->file.bytes_on_disk(); }

/// The loop of one thread: takes pieces of the first transfer that has any left.
void FileStorage::Shared::work() {
  std::unique_lock lock{mutex};
  while (true) {
    changed.wait(lock, [this] { return ends || !waiting.empty(); });
    if (ends) {
      return;
    }
    auto& transfer = *waiting.front();
    auto const begin = transfer.taken;
    auto const bytes = std::min(options.piece_bytes, transfer.bytes - begin);
    transfer.taken += bytes;
    if (transfer.taken == transfer.bytes) {
      waiting.erase(waiting.begin());
    }
    ++busy;
    lock.unlock();
    std::exception_ptr error;
    try {
      std::span const memory{transfer.memory + begin, static_cast<std::size_t>(bytes)};
      transfer.way == Way::read ? file.read(transfer.position + begin, memory)
                                : file.write(transfer.position + begin, memory);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy;
    moved_at = Clock::now();
    transfer.done.add(1 + (error ? fail(transfer, error) : 0));
  }
}

/// Cancels the pieces of `transfer` that no thread has begun. Returns their number; the caller must add it to `done`.
/// Call with the lock held. Keeps the first error.
std::uint32_t FileStorage::Shared::fail(Transfer& transfer, std::exception_ptr error) noexcept {
  transfer.error = transfer.error ? transfer.error : std::move(error);
  auto const left = pieces(transfer.bytes - transfer.taken);
  transfer.taken = transfer.bytes;
  std::erase(waiting, &transfer);
  return left;
}

std::exception_ptr FileStorage::Shared::check() const noexcept {
  try {
    if (options.check) {
      options.check();
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

FileStorage::Shared::Transfer& FileStorage::Shared::begin(Way way, std::int64_t position, std::byte* memory,
                                                          std::int64_t bytes) {
  std::lock_guard const lock{mutex};
  if (free.empty()) {
    free.push_back(&transfers.emplace_back());
  }
  auto& transfer = *free.back();
  free.pop_back();
  transfer.way = way;
  transfer.position = position;
  transfer.bytes = bytes;
  transfer.memory = memory;
  transfer.taken = 0;
  transfer.error = nullptr;
  transfer.last = transfer.done.value() + pieces(bytes);
  if (busy == 0 && waiting.empty()) {
    moved_at = Clock::now();
  }
  waiting.push_back(&transfer);
  return transfer;
}

/// Returns false if the disk moved nothing at all for the timeout. Then all waiters give up together, whether or not a
/// thread has begun their transfer. The memory of a begun transfer may stay in use forever. If check() throws, pieces
/// that have not begun are cancelled, and the disk gets a little time for the rest.
bool FileStorage::Shared::wait(Transfer& transfer) {
  auto patience = options.timeout;
  std::exception_ptr over;
  while (true) {
    Clock::time_point until;
    {
      std::lock_guard const lock{mutex};
      until = moved_at + patience;
      if (until <= Clock::now() && !Counter::reached(transfer.done.value(), transfer.last)) {
        std::erase(waiting, &transfer);
        gave_up = true;
        return false;
      }
    }
    if (transfer.done.wait_until(transfer.last, std::min(until, Clock::now() + between_checks))) {
      return true;
    }
    if (!over && (over = check())) {
      std::lock_guard const lock{mutex};
      transfer.done.add(fail(transfer, over));
      patience = std::min(patience, patience_at_the_end);
    }
  }
}

/// Transfers all `pieces` concurrently. On return their memory is no longer in use, unless the disk is stuck.
void FileStorage::transfer(Way way, std::span<StoredPiece const> pieces) const {
  auto& shared = *shared_;
  std::array<Shared::Transfer*, most_at_once> begun{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto const& [at, memory] = pieces[i];
    begun[i] = memory.empty() ? nullptr : &shared.begin(way, at.position, memory.data(), std::ssize(memory));
  }
  shared.changed.notify_all();
  std::exception_ptr first;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    try {
      if (begun[i] != nullptr) {
        shared.finish(*begun[i], pieces[i].at);
      }
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

void FileStorage::Shared::finish(Transfer& transfer, Stored const& at) {
  auto const describe = [&, bytes = transfer.bytes](std::string_view why) {
    return fmt::format("{}; bytes {} to {}: {} of unit \"{}\"", why, at.position, at.position + bytes, at.state,
                       at.unit);
  };
  bool const ended = wait(transfer);
  std::exception_ptr error;
  {
    std::lock_guard const lock{mutex};
    error = std::exchange(transfer.error, nullptr);
    if (ended) {
      free.push_back(&transfer);
    }
  }
  if (!ended && !error) {
    throw SystemError{describe(fmt::format(
        "{} in {}: the disk does not answer: {} took more than {} ms, "
        "three quarters of zeroth.timeout_ms",
        what, options.folder.string(), transfer.way == Way::read ? "reading" : "writing", options.timeout.count()))};
  }
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (SystemError const& of_file) {
      throw SystemError{describe(of_file.what())};
    }
  }
}

void FileStorage::move(Way way, Stream& stream, std::span<StoredPiece const> pieces) {
  while (!pieces.empty()) {
    auto const now = pieces.first(std::min(pieces.size(), most_at_once));
    std::array<StoredPiece, most_at_once> copy{};
    std::ranges::copy(now, copy.begin());
    as_cpu(stream).post([this, way, copy, count = now.size()] { transfer(way, std::span{copy}.first(count)); });
    pieces = pieces.subspan(now.size());
  }
}

}  // namespace zeroth::device
