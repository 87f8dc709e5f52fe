// SPDX-License-Identifier: Apache-2.0
#include "shard/disk_window.hpp"

#include <algorithm>

#include "core/block_file.hpp"

namespace zeroth::shard {

void DiskWindow::close() {
  if (edited_) {
    storage_->write(*stream_, shown_, memory_.first(static_cast<std::size_t>(shown_bytes_)));
    edited_ = false;
    shown_bytes_ = 0;
    stream_->synchronize();
  }
  shown_bytes_ = 0;
}

void DiskWindow::show(device::Stored const& at) {
  if (shown_bytes_ > 0 && at.position >= shown_.position && at.position < shown_.position + shown_bytes_) {
    return;
  }
  close();
  auto begin = at;
  begin.position = at.position / block_bytes * block_bytes;
  auto const bytes = std::min(std::ssize(memory_), bytes_ - begin.position);
  {
    device::SpanScope const span{*stream_, "read", at.unit};
    storage_->read(*stream_, begin, memory_.first(static_cast<std::size_t>(bytes)));
  }
  stream_->synchronize();
  shown_ = begin;
  shown_bytes_ = bytes;
}

void DiskWindow::each(device::Stored at, std::int64_t bytes, Use const& use, bool edits) {
  if (auto* const there = storage_->data(); there != nullptr) {
    stream_->synchronize();
    return use(there + at.position, 0, bytes);
  }
  for (std::int64_t first = 0; first < bytes;) {
    show(at);
    auto const offset = at.position - shown_.position;
    auto const count = std::min(bytes - first, shown_bytes_ - offset);
    use(memory_.data() + offset, first, count);
    edited_ = edited_ || edits;
    first += count;
    at.position += count;
  }
}

}  // namespace zeroth::shard
