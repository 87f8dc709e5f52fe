/// ShardManager: single values of parameters, set, read and hashed, wherever they are held.
#include <algorithm>

#include "core/lane_hash.hpp"
#include "zeroth/shard/shard_manager.hpp"

namespace zeroth::shard {
namespace {

/// Where elements of a part are in memory that holds `held` of it: the overlap of both, and its place.
struct Overlap {
  Range elements;
  std::int64_t at = 0;
};
Overlap overlap(Range elements, Range held) noexcept {
  auto const begin = std::max(elements.begin, held.begin);
  auto const end = std::max(begin, std::min(elements.end, held.end));
  return {{begin, end}, begin - held.begin};
}

}  // namespace

Range ShardManager::slice_of(std::uint32_t param, int rank) const noexcept {
  auto const& location = context_.layout->location(param);
  auto const& flat = context_.layout->flats()[location.flat];
  auto const& part = location.trainable ? flat.trainable : flat.frozen;
  auto const start = location.offset - (location.trainable ? 0 : flat.trainable.padded_count);
  auto const slice = part.slice(rank);
  auto const count = context_.model->params[param].count;
  auto const begin = std::clamp(slice.begin - start, std::int64_t{0}, count);
  return {begin, std::clamp(slice.end - start, begin, count)};
}

Range ShardManager::held_of(std::uint32_t param) const noexcept {
  return parameters_whole() || optimizer_whole() ? Range{0, context_.model->params[param].count}
                                                 : slice_of(param, rank_);
}

void ShardManager::initialise() {
  constexpr std::int64_t most = 1 << 16;
  auto const memory = context_.device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const values = reinterpret_cast<float*>(memory->data());
  for (std::uint32_t param = 0; param < context_.model->params.size(); ++param) {
    auto const range = held_of(param);
    for (auto first = range.begin; first < range.end; first += most) {
      std::span const piece{values, static_cast<std::size_t>(std::min(most, range.end - first))};
      model::initialise(context_.model->seed, context_.model->params[param], first, piece);
      store(param, first, piece);
    }
  }
}

void ShardManager::store(std::uint32_t param, std::int64_t first, std::span<float const> values) {
  auto const& location = context_.layout->location(param);
  auto const& flat = context_.layout->flats()[location.flat];
  auto const& part = location.trainable ? flat.trainable : flat.frozen;
  auto& compute = context_.device->compute();
  auto const start = first + location.offset - (location.trainable ? 0 : flat.trainable.padded_count);
  Range const elements{start, start + static_cast<std::int64_t>(values.size())};
  auto const at = addresses(location.flat);

  auto const in_copy = overlap(elements, held(part, request_.placements.parameters, rank_));
  auto const dtype = request_.precision.compute;
  auto const before = location.trainable ? 0 : held(flat.trainable, request_.placements.parameters, rank_).count();
  kernels_->convert(compute, at.parameters + (before + in_copy.at) * bytes_of(dtype), dtype,
                    values.data() + (in_copy.elements.begin - start), Dtype::fp32, in_copy.elements.count());
  if (location.trainable && request_.precision.has_master()) {
    auto const in_master = overlap(elements, held(part, request_.placements.optimizer, rank_));
    auto const master = request_.precision.master;
    kernels_->convert(compute, at.master + in_master.at * bytes_of(master), master,
                      values.data() + (in_master.elements.begin - start), Dtype::fp32, in_master.elements.count());
  }
  compute.synchronize();
}

void ShardManager::load(std::uint32_t param, std::int64_t first, std::span<float> values) {
  auto const& location = context_.layout->location(param);
  auto const& flat = context_.layout->flats()[location.flat];
  auto& compute = context_.device->compute();
  auto const count = static_cast<std::int64_t>(values.size());
  auto const at = addresses(location.flat);
  auto const start = first + location.offset - (location.trainable ? 0 : flat.trainable.padded_count);
  if (location.trainable) {
    auto const own = held(flat.trainable, request_.placements.optimizer, rank_);
    auto const master = request_.precision.master;
    kernels_->convert(compute, values.data(), Dtype::fp32, at.master + (start - own.begin) * bytes_of(master), master,
                      count);
  } else {
    auto const dtype = request_.precision.compute;
    auto const own = held(flat.frozen, request_.placements.parameters, rank_);
    auto const before = held(flat.trainable, request_.placements.parameters, rank_).count();
    kernels_->convert(compute, values.data(), Dtype::fp32,
                      at.parameters + (before + start - own.begin) * bytes_of(dtype), dtype, count);
  }
  compute.synchronize();
}

std::uint64_t ShardManager::hash_whole(std::uint32_t flat, Moments moments, std::span<std::byte> piece) {
  auto& compute = context_.device->compute();
  auto const& unit = context_.layout->flats()[flat];
  auto const& precision = request_.precision;
  auto const at = addresses(flat);
  LaneHash hash;
  auto const add = [&](std::byte const* data, std::int64_t count, Dtype dtype) {
    auto const most = static_cast<std::int64_t>(piece.size());
    for (auto left = count * bytes_of(dtype); left > 0;) {
      auto const bytes = std::min(left, most);
      kernels_->copy(compute, piece.data(), data, bytes);
      compute.synchronize();
      hash.add(piece.first(static_cast<std::size_t>(bytes)));
      data += bytes;
      left -= bytes;
    }
  };
  if (parameters_whole()) {
    add(at.parameters, unit.padded_count(), precision.compute);
  }
  if (optimizer_whole()) {
    auto const count = unit.trainable.padded_count;
    if (precision.has_master()) {
      add(at.master, count, precision.master);
    }
    if (moments == Moments::with) {
      add(at.m, count, precision.moments);
      add(at.v, count, precision.moments);
    }
  }
  return hash.value();
}

std::span<float> ShardManager::transfer() noexcept {
  return {reinterpret_cast<float*>(scratch_->data() + plan_.transfer),
          static_cast<std::size_t>(plan_.transfer_bytes) / sizeof(float)};
}

}  // namespace zeroth::shard
