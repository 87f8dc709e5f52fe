// SPDX-License-Identifier: Apache-2.0
#include "comm/buffer.hpp"

#include <algorithm>

#include "device/kernels.hpp"

namespace zeroth::comm::conformance {
namespace {

constexpr std::int64_t alignment = 64;
constexpr std::int64_t piece_bytes = std::int64_t{8} << 20U;  // nearly all cases of a suite need only one

}  // namespace

Workspace::Workspace(device::Device& device) : device_{device} {}

Workspace::~Workspace() = default;

device::Stream& Workspace::stream() {
  if (stream_ == nullptr) {
    stream_ = device_.make_stream("workspace", device::Overlap::on);
  }
  return *stream_;
}

Workspace::Place Workspace::take(std::int64_t bytes) {
  std::int64_t const needed = (std::max<std::int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  auto const found = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](auto const& each) { return each->device->bytes() - each->used >= needed; });
  auto& piece = found == pieces_.end() ? add_piece(std::max(needed, piece_bytes)) : **found;
  Place const place{piece.device->data() + piece.used, piece.host->data() + piece.used};
  piece.used += needed;
  ++live_;
  return place;
}

Workspace::Piece& Workspace::add_piece(std::int64_t bytes) {
  auto& piece = *pieces_.emplace_back(std::make_unique<Piece>());
  piece.device = device_.allocate(device::Category::scratch, bytes);
  piece.host = device_.allocate_host(bytes);
  return piece;
}

device::Memory const& Workspace::first_piece() {
  return *(pieces_.empty() ? add_piece(piece_bytes) : *pieces_.front()).device;
}

void Workspace::give_back() noexcept {
  if (--live_ == 0) {
    for (auto& piece : pieces_) {
      piece->used = 0;
    }
  }
}

void Workspace::upload(Place const& place, std::int64_t bytes) {
  device_.kernels().copy(stream(), place.device, place.host, bytes);
  stream().synchronize();
}

void Workspace::download(Place const& place, std::int64_t bytes) {
  device_.kernels().copy(stream(), place.host, place.device, bytes);
  stream().synchronize();
}

}  // namespace zeroth::comm::conformance
