// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/file_writer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace zeroth::checkpoint {

FileWriter::FileWriter(std::filesystem::path const& path, std::int64_t bytes, Direct direct, std::span<std::byte> pool)
    : file_{"checkpoint file", path, whole_blocks(bytes), direct}, bytes_{bytes} {
  auto const half = pool.size() / 2 / block_bytes * block_bytes;
  auto const size = std::min(static_cast<std::size_t>(piece_bytes), half);
  for (; pool.size() >= size; pool = pool.subspan(size)) {
    pieces_.push({pool.first(size), 0});
  }
}

std::span<std::byte> FileWriter::room() {
  if (current_.empty()) {
    thread_.wait(pieces_.front().last_task);
    current_ = pieces_.front().memory;
    pieces_.pop();
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
  write(current_.first(blocks));
  pieces_.push({current_, last_task_});
  position_ += static_cast<std::int64_t>(used_);
  current_ = {};
  used_ = 0;
}

/// Writes on the thread, at the current end of the file.
void FileWriter::write(std::span<std::byte const> blocks) {
  last_task_ = thread_.post([this, blocks, position = position_] { file_.write(position, blocks); });
}

std::size_t FileWriter::to_next_block() const noexcept {
  auto const at = position_ + static_cast<std::int64_t>(used_);
  return static_cast<std::size_t>(whole_blocks(at) - at);
}

void FileWriter::lend(std::span<std::byte const> blocks) {
  if (used_ > 0) {
    hand_over();
  }
  write(blocks);
  position_ += std::ssize(blocks);
}

void FileWriter::after_lent(std::function<void()> action) { last_task_ = thread_.post(std::move(action)); }

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
  thread_.wait(last_task_);
  file_.finish(bytes_);
}

}  // namespace zeroth::checkpoint
