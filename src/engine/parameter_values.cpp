// SPDX-License-Identifier: Apache-2.0
#include "engine/parameter_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/lane_hash.hpp"
#include "engine/pieces.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {

void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, SliceOwners owners,
                 Exchange const& exchange) {
  manager.parameters.await_gathers();
  auto const buffer = manager.values.transfer();
  auto const memory = exchange.device->allocate_host(static_cast<std::int64_t>(buffer.size_bytes()));
  auto* const on_host = reinterpret_cast<float const*>(memory->data());
  auto& compute = exchange.device->compute();
  each_piece(manager.values, param, owners.count, buffer, [&](int owner, std::int64_t first, std::span<float> piece) {
    int const rank = owners.first + owner;
    if (rank == exchange.rank()) {
      manager.values.load(param, first, piece);
    }
    exchange.communicator->broadcast(*exchange.stream, {"read", ""}, piece.data(), piece.data(), std::ssize(piece),
                                     Dtype::fp32, rank);
    exchange.stream->synchronize();
    if (values.empty()) {
      return;
    }
    exchange.device->kernels().copy(compute, memory->data(), piece.data(),
                                    static_cast<std::int64_t>(piece.size_bytes()));
    compute.synchronize();
    std::copy_n(on_host, piece.size(), values.begin() + first);
  });
}

namespace {

void expect_same_values(std::span<float const> values, std::string_view param, Exchange const& exchange) {
  LaneHash hash;
  hash.add(std::as_bytes(values));
  auto const value = hash.value();
  auto const hashes = gather(std::span{&value, 1}, "write", exchange);
  auto const other = std::ranges::find_if_not(hashes, [&](auto each) { return each == hashes.front(); });
  if (other != hashes.end()) {
    throw PeerError{fmt::format("write(): ranks {} and {} gave different values for parameter \"{}\"",
                                exchange.job_rank(0),
                                exchange.job_rank(static_cast<std::size_t>(other - hashes.begin())), param)};
  }
}

}  // namespace

void write_values(shard::ShardManager& manager, model::Description const& model, ParamId param,
                  std::span<float const> values, Exchange const& exchange, comm::Communicator* other_stages) {
  auto const& name = model.params[param].name;
  expect_same_values(values, name, exchange);
  if (other_stages != nullptr) {
    expect_same_values(values, name, {other_stages, exchange.device, exchange.stream});
  }
  store_values(manager, param, values, *exchange.device);
}

void store_values(shard::ShardManager& manager, ParamId param, std::span<float const> values, device::Device& device) {
  manager.parameters.await_gathers();
  manager.parameters.drop_all();
  constexpr std::int64_t most = std::int64_t{1} << 16U;
  auto const memory = device.allocate_host(most * bytes_of(Dtype::fp32));
  auto* const on_host = reinterpret_cast<float*>(memory->data());
  auto const held = manager.values.held_of(param);
  for (auto first = held.begin; first < held.end; first += most) {
    auto const count = std::min(most, held.end - first);
    std::copy_n(values.begin() + first, count, on_host);
    manager.values.store(param, first, {on_host, static_cast<std::size_t>(count)});
  }
}

void exchange_averages(shard::ShardManager& manager) {
  manager.parameters.await_gathers();
  manager.parameters.drop_all();
  manager.values.swap_averages();
  manager.slices.spread();
}

optim::ExactSum squares_of_slice(shard::ShardManager& manager, ParamId param, Exchange const& exchange) {
  constexpr std::int64_t most = std::int64_t{1} << 16U;
  auto const memory = exchange.device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const on_host = reinterpret_cast<float*>(memory->data());
  auto const slice = manager.values.slice_of(param, exchange.rank());
  optim::ExactSum mine;
  for (auto first = slice.begin; first < slice.end; first += most) {
    std::span const piece{on_host, static_cast<std::size_t>(std::min(most, slice.end - first))};
    manager.values.load_gradient(param, first, piece);
    for (auto const value : piece) {
      mine += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  return mine;
}

optim::ExactSum sum_over_ranks(optim::ExactSum const& mine, Share const& share, ParamId param, Exchange const& whole) {
  struct Said {
    optim::ExactSum sum;
    std::uint64_t param;
  };
  Said const said{mine, index_of(param)};
  std::vector<Said> all(static_cast<std::size_t>(whole.world()), said);
  gather(&said, all.data(), sizeof said, Dtype::byte, "gradient_norm", whole);
  optim::ExactSum total;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].param != all[0].param) {  // a rank of another stage, whose calls are not compared
      auto const name = [&](std::size_t of) -> std::string const& {
        return share.name(static_cast<ParamId>(all[of].param));
      };
      throw PeerError{
          fmt::format("gradient_norm(param): rank {} asked for \"{}\", rank {} for \"{}\"; all ranks must "
                      "make the same calls in the same order",
                      whole.job_rank(0), name(0), whole.job_rank(rank), name(rank))};
    }
    total += all[rank].sum;
  }
  return total;
}

}  // namespace zeroth::engine
