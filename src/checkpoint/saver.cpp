// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saver.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "checkpoint/file_writer.hpp"
#include "checkpoint/hashes.hpp"
#include "core/start_thread.hpp"
#include "device/kernels.hpp"

namespace zeroth::checkpoint {
namespace {

struct Cancelled {};

}  // namespace

Saver::Saver(device::Device& device, std::int64_t pool_bytes)
    : device_{device},
      pool_{device.allocate_host(std::max(pool_bytes / piece_bytes, std::int64_t{2}) * piece_bytes)},
      begun_{device.make_event()},
      stream_{device.make_stream("save", device::Overlap::on)} {
  thread_ = start_thread("saving", [this, rank = this_rank()] {
    this_rank() = rank;
    run();
  });
}

Saver::~Saver() {
  cancel();
  {
    std::lock_guard const lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Saver::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [this] { return ends_ || work_; });
    if (!work_) {
      return;
    }
    auto const work = std::exchange(work_, nullptr);
    auto const after = after_;
    lock.unlock();
    do_work(work, after);
    lock.lock();
  }
}

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
    work_ = std::move(work);
    state_ = during;
    after_ = after;
  }
  changed_.notify_all();
}

void Saver::write(FileTask task) {
  device_.compute().record(*begun_);
  stream_->wait(*begun_);
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
  auto const table_bytes = hash_count(*task.contents) * static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto const bytes = static_cast<std::int64_t>(task.header.size()) + task.contents->state_bytes + table_bytes;
  FileWriter file{task.path, bytes, task.direct, {pool_->data(), static_cast<std::size_t>(pool_->bytes())}};
  file.append(std::as_bytes(std::span{task.header}));
  HashTable hashes;
  std::size_t done = 0;
  for (auto const& source : task.sources) {
    for (std::span left{source.data, static_cast<std::size_t>(source.bytes)}; !left.empty();) {
      if (cancelled_) {
        throw Cancelled{};
      }
      auto const room = file.room();
      auto const count = std::min(room.size(), left.size());
      copy(room.data(), left.data(), count, source.unit);
      if (left = left.subspan(count); left.empty()) {
        note_read(++done);
      }
      hashes.add(room.first(count));
      file.filled(count);
    }
  }
  auto const table = hashes.finish();
  file.append(std::as_bytes(std::span{table}));
  file.finish();
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

bool Saver::await_read(std::size_t count) {
  std::unique_lock lock{mutex_};
  auto const is_read = [&] { return read_ >= std::min(count, sources_); };
  if (is_read()) {
    return false;
  }
  changed_.wait(lock, is_read);
  return true;
}

bool Saver::all_read() const {
  std::lock_guard const lock{mutex_};
  return read_ == sources_;
}

void Saver::wait() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return state_ != State::writing && state_ != State::committing; });
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
