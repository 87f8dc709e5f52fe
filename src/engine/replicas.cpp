// SPDX-License-Identifier: Apache-2.0
#include "engine/replicas.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/hash.hpp"
#include "core/lane_hash.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

/// "rank 1's unit "b", rank 3's unit "a" (the first of 2) differs from rank 0's": whose numbers are not the first
/// rank's. Empty if all are the same.
template <class Name>
std::string deviations(std::span<std::uint64_t const> mine, char const* what, Name const& name_of_place,
                       Exchange const& exchange) {
  constexpr std::string_view purpose = "replicas";
  Fnv1a of_all;
  for (auto const each : mine) {
    of_all.add(each);
  }
  auto const hash = of_all.value();
  auto const hashes = gather(std::span{&hash, 1}, purpose, exchange);
  if (std::ranges::all_of(hashes, [&](auto other) { return other == hashes.front(); })) {
    return {};
  }
  auto const all = gather(mine, purpose, exchange);
  std::vector<std::string> found;
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    std::size_t first = mine.size();
    std::size_t count = 0;
    for (auto place = mine.size(); place-- > 0;) {
      if (all[place] != all[rank * mine.size() + place]) {
        first = place;
        ++count;
      }
    }
    if (count > 0) {
      found.push_back(fmt::format("rank {}'s {} \"{}\"{}", exchange.job_rank(rank), what, name_of_place(first),
                                  count == 1 ? "" : fmt::format(" (the first of {})", count)));
    }
  }
  constexpr std::size_t shown = 8;
  auto const more = found.size() > shown ? fmt::format(" and {} more ranks", found.size() - shown) : std::string{};
  found.resize(std::min(found.size(), shown));
  return fmt::format("{}{} differs from rank {}'s", fmt::join(found, ", "), more, exchange.job_rank(0));
}

/// Of a few values from the begin to the end of a tensor.
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
  if (!manager.values.replicated() || exchange.world() == 1) {
    return;
  }
  constexpr std::int64_t piece_bytes = std::int64_t{1} << 18U;  // on its way through the host it stays in a cache
  auto const memory = exchange.device->allocate_host(piece_bytes);
  std::span const piece{memory->data(), static_cast<std::size_t>(piece_bytes)};
  auto const& flats = layout.flats();
  std::vector<std::uint64_t> hashes;
  for (auto const flat : flats.ids()) {
    hashes.push_back(manager.values.hash_whole(flat, states, piece));
  }
  auto const found = deviations(
      hashes, "unit", [&](std::size_t flat) -> std::string const& { return flats[id_at<shard::FlatId>(flat)].name; },
      exchange);
  if (!found.empty()) {
    throw PeerError{fmt::format("{} after {}: ranks that should hold the same do not", found, after)};
  }
}

std::vector<std::uint64_t> sample(SafetensorsReader const& reader, model::Description const& model) {
  std::vector<std::uint64_t> samples;
  for (auto const& param : model.params) {
    samples.push_back(sample_of(reader, reader.tensors().at(param.name), param.count));
  }
  return samples;
}

void compare_files(std::span<std::uint64_t const> samples, std::filesystem::path const& file,
                   model::Description const& model, Exchange const& exchange) {
  if (exchange.world() == 1) {
    return;
  }
  auto const found = deviations(
      samples, "parameter",
      [&](std::size_t param) -> std::string const& { return model.params[id_at<ParamId>(param)].name; }, exchange);
  if (!found.empty()) {
    throw PeerError{
        fmt::format("load_weights({}): {} in the file: all ranks must read the same", file.string(), found)};
  }
}

}  // namespace zeroth::engine
