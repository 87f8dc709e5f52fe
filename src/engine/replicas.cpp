// SPDX-License-Identifier: Apache-2.0
#include "engine/replicas.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/hash.hpp"
#include "core/lane_hash.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// "rank 1's unit "b" differs from rank 0's, rank 3's unit "a" (the first of 2) differs from rank 2's". Lists the ranks
/// whose numbers differ from those of the first rank that should have the same, `first_of` a rank. Empty if all agree.
template <class Name, class First>
std::string deviations(std::span<std::uint64_t const> mine, char const* what, Name const& name_of_place,
                       First const& first_of, Exchange const& exchange) {
  constexpr std::string_view purpose = "replicas";
  Fnv1a of_all;
  for (auto const each : mine) {
    of_all.add(each);
  }
  auto const hash = of_all.value();
  auto const hashes = gather(std::span{&hash, 1}, purpose, exchange);
  std::vector<std::size_t> odd;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[first_of(rank)]) {
      odd.push_back(rank);
    }
  }
  if (odd.empty()) {
    return {};
  }
  auto const all = gather(mine, purpose, exchange);
  std::vector<std::string> found;
  for (auto const rank : odd) {
    auto const first = first_of(rank);
    std::size_t where = mine.size();
    std::size_t count = 0;
    for (auto place = mine.size(); place-- > 0;) {
      if (all[first * mine.size() + place] != all[rank * mine.size() + place]) {
        where = place;
        ++count;
      }
    }
    found.push_back(fmt::format("rank {}'s {} \"{}\"{} differs from rank {}'s", exchange.job_rank(rank), what,
                                name_of_place(where), count == 1 ? "" : fmt::format(" (the first of {})", count),
                                exchange.job_rank(first)));
  }
  constexpr std::size_t shown = 8;
  auto const more = found.size() > shown ? fmt::format(" and {} more ranks", found.size() - shown) : std::string{};
  found.resize(std::min(found.size(), shown));
  return fmt::format("{}{}", fmt::join(found, ", "), more);
}

constexpr std::int64_t piece_bytes = std::int64_t{1} << 18U;  // small enough to stay in a cache while it passes through
                                                              // the host

constexpr auto first_of_all = [](std::size_t /*rank*/) { return std::size_t{0}; };

/// A hash of a few values spread over a tensor.
std::uint64_t sample_of(SafetensorsReader const& reader, Tensor const& tensor, std::int64_t count) {
  constexpr std::int64_t places = 8;
  constexpr std::int64_t most = 8;
  std::array<float, most> memory{};
  auto const piece = std::span{memory}.first(static_cast<std::size_t>(std::min(most, count)));
  auto const last = count - std::ssize(piece);
  LaneHash hash;
  for (std::int64_t place = 0; place < places; ++place) {
    reader.read(tensor, last / (places - 1) * place + last % (places - 1) * place / (places - 1), piece);
    hash.add(std::as_bytes(std::span{memory}));
  }
  return hash.value();
}

}  // namespace

void compare_replicas(shard::ShardManager& manager, shard::Layout const& layout, shard::States states,
                      std::string_view after, Exchange const& exchange) {
  if (exchange.world() == 1) {
    return;
  }
  auto const memory = exchange.device->allocate_host(piece_bytes);
  std::span const piece{memory->data(), static_cast<std::size_t>(piece_bytes)};
  auto const& flats = layout.flats();
  auto const name_of = [&](std::size_t flat) -> std::string const& { return flats[id_at<shard::FlatId>(flat)].name; };
  auto const& places = manager.memory.request().places;
  auto const first_of_replicas = [&](std::size_t place) {
    return static_cast<std::size_t>(places.first_replica(static_cast<int>(place)));
  };
  auto const compare = [&](shard::Placement placement, auto const& first_of) {
    if (!manager.values.holds(placement)) {
      return;
    }
    std::vector<std::uint64_t> hashes;
    for (auto const flat : flats.ids()) {
      hashes.push_back(manager.values.hash(flat, placement, states, piece));
    }
    if (auto const found = deviations(hashes, "unit", name_of, first_of, exchange); !found.empty()) {
      throw PeerError{fmt::format("{} after {}: ranks that should hold the same do not", found, after)};
    }
  };
  compare(shard::Placement::whole, first_of_all);
  compare(shard::Placement::group, first_of_replicas);
}

void compare_ties(shard::ShardManager& manager, shard::States states, std::string_view after,
                  Exchange const& exchange) {
  auto const& memory = manager.memory;
  auto const ties = memory.layout().ties();
  std::unique_ptr<device::Memory> on_host;
  for (std::size_t t = 0; t < ties.size(); ++t) {
    Exchange const among{memory.context().ties[t], exchange.device, exchange.stream};
    if (among.communicator == nullptr) {
      continue;
    }
    if (!on_host) {
      manager.parameters.await_gathers();
      on_host = exchange.device->allocate_host(piece_bytes);
    }
    auto const hash =
        manager.values.hash_of_slice(ties[t].flat, states, {on_host->data(), static_cast<std::size_t>(piece_bytes)});
    auto const name_of = [&](std::size_t /*place*/) -> std::string const& { return memory.flat(ties[t].flat).name; };
    if (auto const found = deviations({&hash, 1}, "parameter", name_of, first_of_all, among); !found.empty()) {
      throw PeerError{fmt::format("{} after {}: ranks that should hold the same do not", found, after)};
    }
  }
}

std::vector<std::uint64_t> sample(SafetensorsReader const& reader, Share const& model) {
  std::vector<std::uint64_t> samples;
  for (auto const& param : model.params()) {
    samples.push_back(sample_of(reader, reader.tensors().at(param.name), param.count));
  }
  return samples;
}

void compare_files(std::span<std::uint64_t const> samples, std::filesystem::path const& file, Share const& model,
                   Exchange const& whole) {
  if (whole.world() == 1) {
    return;
  }
  auto const found = deviations(
      samples, "parameter", [&](std::size_t param) -> std::string const& { return model.name(id_at<ParamId>(param)); },
      first_of_all, whole);
  if (!found.empty()) {
    throw PeerError{
        fmt::format("load_weights({}): {} in the file: all ranks must read the same", file.string(), found)};
  }
}

}  // namespace zeroth::engine
