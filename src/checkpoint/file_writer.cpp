// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/file_writer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/start_thread.hpp"

namespace zeroth::checkpoint {

FileWriter::FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool)
    : file_{"checkpoint file", path, whole_blocks(bytes), direct}, bytes_{bytes} {
  auto const half = pool.size() / 2 / block_bytes * block_bytes;
  auto const size = std::min(static_cast<std::size_t>(piece_bytes), half);
  for (; pool.size() >= size; pool = pool.subspan(size)) {
    free_.push(pool.first(size));
  }
  thread_ = start_thread("the writer of a checkpoint", [this, rank = this_rank()] {
    this_rank() = rank;
    run();
  });
}

FileWriter::~FileWriter() {
  {
    std::lock_guard const lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FileWriter::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    changed_.wait(lock, [this] { return ends_ || (!full_.empty() && !error_); });
    if (ends_) {
      return;
    }
    auto const full = std::move(full_.front());
    full_.pop();
    writing_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      file_.write(full.position, full.blocks);
      if (full.action) {
        full.action();
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    writing_ = false;
    error_ = error;
    if (!full.piece.empty()) {
      free_.push(full.piece);
    }
    changed_.notify_all();
  }
}

void FileWriter::rethrow() {
  if (error_) {
    std::rethrow_exception(error_);
  }
}

std::span<std::byte> FileWriter::room() {
  if (current_.empty()) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return error_ || !free_.empty(); });
    rethrow();
    current_ = free_.front();
    free_.pop();
    used_ = 0;
  }
  return current_.subspan(used_);
}

void FileWriter::filled(std::size_t bytes) {
  used_ += bytes;
  if (used_ == current_.size()) {
    hand_over();
  }
}

void FileWriter::hand_over() {
  auto const blocks = static_cast<std::size_t>(whole_blocks(static_cast<std::int64_t>(used_)));
  std::ranges::fill(current_.subspan(used_, blocks - used_), std::byte{0});
  push({.blocks = current_.first(blocks), .position = position_, .piece = current_, .action = {}});
  position_ += static_cast<std::int64_t>(used_);
  current_ = {};
  used_ = 0;
}

void FileWriter::push(Full full) {
  {
    std::lock_guard const lock{mutex_};
    rethrow();
    full_.push(std::move(full));
  }
  changed_.notify_all();
}

std::size_t FileWriter::to_next_block() const noexcept {
  auto const at = position_ + static_cast<std::int64_t>(used_);
  return static_cast<std::size_t>(whole_blocks(at) - at);
}

void FileWriter::lend(std::span<std::byte const> blocks) {
  if (used_ > 0) {
    hand_over();
  }
  push({.blocks = blocks, .position = position_, .piece = {}, .action = {}});
  position_ += std::ssize(blocks);
}

void FileWriter::after_lent(std::function<void()> action) {
  push({.blocks = {}, .position = position_, .piece = {}, .action = std::move(action)});
}

void FileWriter::append(std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const to = room();
    auto const count = std::min(to.size(), bytes.size());
    std::memcpy(to.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    filled(count);
  }
}

void FileWriter::finish() {
  if (!current_.empty() && used_ > 0) {
    hand_over();
  }
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return error_ || (full_.empty() && !writing_); });
    rethrow();
  }
  file_.finish(bytes_);
}

}  // namespace zeroth::checkpoint
