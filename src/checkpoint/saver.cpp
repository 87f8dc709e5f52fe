// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saver.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "device/kernels.hpp"

namespace zeroth::checkpoint {
namespace {

struct Cancelled {};

/// Smaller pieces are copied: a transfer costs as much as copying some dozens of KiB.
constexpr std::size_t least_lent = std::size_t{64} << 10U;

}  // namespace

std::int64_t staging_bytes(bool host_holds_states, std::int64_t buffer_bytes) noexcept {
  constexpr auto beside_lent = std::int64_t{1} << 20U;
  constexpr auto by_default = 4 * piece_bytes;
  if (buffer_bytes == 0) {
    return host_holds_states ? beside_lent : by_default;
  }
  return std::max(buffer_bytes / piece_bytes, std::int64_t{2}) * piece_bytes;
}

Saver::Saver(device::Device& device, std::int64_t buffer_bytes, std::span<shard::OffloadedStates* const> disks)
    : device_{device},
      lends_{buffer_bytes == 0 && device.has_host_memory()},
      pool_bytes_{checkpoint::staging_bytes(device.has_host_memory(), buffer_bytes)},
      begun_{device.make_event()},
      stream_{device.make_stream("save", device::Overlap::on)} {
  for (auto const* const disk : disks) {
    windows_.emplace(disk, disk->window_on(*stream_));
  }
}

Saver::~Saver() { cancel(); }

void Saver::do_work(std::function<void()> const& work, State after) {
  std::exception_ptr failure;
  try {
    work();
  } catch (Cancelled const&) {
    after = State::failed;
  } catch (...) {
    after = State::failed;
    failure = std::current_exception();
  }
  {
    std::lock_guard const lock{mutex_};
    state_ = after;
    failure_ = failure;
    read_ = sources_;
  }
  changed_.notify_all();
}

void Saver::post(std::function<void()> work, State during, State after) {
  {
    std::lock_guard const lock{mutex_};
    state_ = during;
  }
  thread_.post([this, work = std::move(work), after] { do_work(work, after); });
}

void Saver::write(FileTask task) {
  device_.compute().record(*begun_);
  stream_->wait(*begun_);
  for (auto const* const on_disk : task.on_disks) {
    stream_->wait(*on_disk);
  }
  cancelled_ = false;
  {
    std::lock_guard const lock{mutex_};
    failure_ = nullptr;
    sources_ = task.sources.size();
    read_ = 0;
  }
  post([this, task = std::move(task)] { write_file(task); }, State::writing, State::written);
}

void Saver::commit(std::function<void()> action) { post(std::move(action), State::committing, State::committed); }

void Saver::write_file(FileTask const& task) {
  if (task.prepare) {
    task.prepare();
  }
  if (!pool_) {  // on this thread, since allocating takes as long as writing to all of it
    device_.make_current();
    pool_ = device_.allocate_host(pool_bytes_);
    held_ = pool_bytes_;
  }
  auto const& contents = *task.contents;
  auto const table_bytes = hash_count(contents, task.place) * static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto const bytes = static_cast<std::int64_t>(task.header.size()) + contents.data_bytes(task.place) + table_bytes;
  FileWriter file{task.path, bytes, task.direct, {pool_->data(), static_cast<std::size_t>(pool_->bytes())}};
  file.append(std::as_bytes(std::span{task.header}));
  hashes_.clear();
  stream_->synchronize();  // this thread reads lent memory itself, outside the stream
  std::size_t done = 0;
  for (auto const& source : task.sources) {
    if (source.data == nullptr) {
      copy_from_disk(file, source);
    }
    for (std::span left{source.data, source.data == nullptr ? 0 : static_cast<std::size_t>(source.bytes)};
         !left.empty();) {
      if (cancelled_) {
        throw Cancelled{};
      }
      auto const count = lends_ ? lend_some(file, left, source.unit) : copy_some(file, left, source.unit, left.size());
      left = left.subspan(count);
    }
    ++done;
    if (lends_) {
      file.after_lent([this, done] { note_read(done); });
    } else {
      note_read(done);
    }
  }
  append_hashed(file, task.rank_state);
  auto const table = hashes_.finish();
  file.append(std::as_bytes(std::span{table}));
  file.finish();
}

std::size_t Saver::copy_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit,
                             std::size_t most) {
  auto const room = file.room();
  auto const count = std::min({room.size(), left.size(), most});
  copy(room.data(), left.data(), count, unit);
  hashes_.add(room.first(count));
  file.filled(count);
  return count;
}

void Saver::copy_from_disk(FileWriter& file, Source const& source) {
  auto& window = windows_.at(source.disk);
  window.close();  // states have changed since the last look
  window.look(source.stored, source.bytes, [&](std::byte const* data, std::int64_t /*first*/, std::int64_t bytes) {
    for (std::span left{data, static_cast<std::size_t>(bytes)}; !left.empty();) {
      if (cancelled_) {
        throw Cancelled{};
      }
      left = left.subspan(copy_some(file, left, source.unit, left.size()));
    }
  });
}

/// Appends bytes of the host.
void Saver::append_hashed(FileWriter& file, std::span<std::byte const> left) {
  while (!left.empty()) {
    if (cancelled_) {
      throw Cancelled{};
    }
    auto const room = file.room();
    auto const count = std::min(room.size(), left.size());
    std::ranges::copy(left.first(count), room.begin());
    hashes_.add(room.first(count));
    file.filled(count);
    left = left.subspan(count);
  }
}

/// Lends whole blocks of the file. Copies the bytes before the first block and after the last one, and small sources.
std::size_t Saver::lend_some(FileWriter& file, std::span<std::byte const> left, std::string_view unit) {
  auto const head = file.to_next_block();
  if (left.size() < head + least_lent || !file.takes(left.data() + head)) {
    return copy_some(file, left, unit, left.size());
  }
  if (head > 0) {
    return copy_some(file, left, unit, head);
  }
  constexpr auto block = static_cast<std::size_t>(block_bytes);
  auto const blocks = left.first(std::min(left.size() / block * block, static_cast<std::size_t>(piece_bytes)));
  device::SpanScope const span{*stream_, "save", unit};
  hashes_.add(blocks);
  file.lend(blocks);
  return blocks.size();
}

void Saver::copy(std::byte* to, std::byte const* from, std::size_t bytes, std::string_view unit) {
  {
    device::SpanScope const span{*stream_, "save", unit};
    device_.kernels().copy(*stream_, to, from, static_cast<std::int64_t>(bytes));
  }
  stream_->synchronize();
}

void Saver::note_read(std::size_t count) {
  {
    std::lock_guard const lock{mutex_};
    read_ = count;
  }
  changed_.notify_all();
}

bool Saver::await_read(std::size_t count, std::chrono::milliseconds patience, std::function<void()> const& late) {
  std::unique_lock lock{mutex_};
  auto const is_read = [&] { return read_ >= std::min(count, sources_); };
  if (is_read()) {
    return false;
  }
  if (!changed_.wait_for(lock, patience, is_read)) {
    lock.unlock();
    late();
    lock.lock();
    changed_.wait(lock, is_read);
  }
  return true;
}

void Saver::wait() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return state_ != State::writing && state_ != State::committing; });
}

bool Saver::wait_for(std::chrono::milliseconds most) {
  std::unique_lock lock{mutex_};
  return changed_.wait_for(lock, most, [this] { return state_ != State::writing && state_ != State::committing; });
}

Saver::State Saver::state() const {
  std::lock_guard const lock{mutex_};
  return state_;
}

std::exception_ptr Saver::failure() const {
  std::lock_guard const lock{mutex_};
  return failure_;
}

}  // namespace zeroth::checkpoint
