// SPDX-License-Identifier: Apache-2.0
#include "engine/merged_parts.hpp"

#include <algorithm>
#include <utility>

namespace zeroth::engine {

MergedParts::MergedParts(std::vector<model::CutPart> parts, std::vector<std::span<float>> buffers, int own,
                         Receive receive, Take take)
    : parts_{std::move(parts)},
      buffers_{std::move(buffers)},
      streams_(parts_.size()),
      own_{own},
      receive_{std::move(receive)},
      take_{std::move(take)} {}

void MergedParts::push(std::span<float const> values) {
  streams_[static_cast<std::size_t>(own_)].left = values;
  merge();
}

void MergedParts::finish() { merge(); }

/// Whether an element of the part is available. Receives a piece if the part is another rank's.
bool MergedParts::has_next(std::size_t index) {
  auto& stream = streams_[index];
  auto const to_come = parts_[index].count() - stream.received;
  if (stream.left.empty() && static_cast<int>(index) != own_ && to_come > 0) {
    auto const buffer = buffers_[index];
    auto const piece = buffer.first(std::min(buffer.size(), static_cast<std::size_t>(to_come)));
    receive_(static_cast<int>(index), piece);
    stream.received += std::ssize(piece);
    stream.left = piece;
  }
  return !stream.left.empty();
}

void MergedParts::consume(std::size_t index, std::int64_t count) noexcept {
  auto& stream = streams_[index];
  stream.left = stream.left.subspan(static_cast<std::size_t>(count));
  stream.taken += count;
}

void MergedParts::drop_padding(std::size_t index) {
  auto const& part = parts_[index];
  while (streams_[index].taken < part.count()) {
    auto const run = part.run_from(streams_[index].taken);
    if (!run.is_padding() || !has_next(index)) {
      return;
    }
    consume(index, std::min(run.count, std::ssize(streams_[index].left)));
  }
}

/// Merges until an element of rank `own` is missing.
void MergedParts::merge() {
  for (std::size_t idle = 0; idle < parts_.size();) {  // consecutive parts without a next element
    idle = 0;
    for (std::size_t index = 0; index < parts_.size(); ++index) {
      drop_padding(index);
      auto const& part = parts_[index];
      auto const at = streams_[index].taken;
      auto const run = at < part.count() ? part.run_from(at) : model::CutPart::Run{at, -1, 0};
      if (run.in_whole != merged_ || !has_next(index)) {
        ++idle;
        continue;
      }
      auto const count = std::min(run.count, std::ssize(streams_[index].left));
      take_(streams_[index].left.first(static_cast<std::size_t>(count)));
      consume(index, count);
      merged_ += count;
    }
  }
}

}  // namespace zeroth::engine
