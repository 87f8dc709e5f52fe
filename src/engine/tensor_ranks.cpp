// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/hash.hpp"
#include "core/lane_hash.hpp"
#include "engine/parameter_values.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

using shard::TensorKind;

/// The first hash that differs between the first rank and another one.
struct Deviation {
  std::size_t rank, at;
};

/// Collective; waits.
std::optional<Deviation> first_deviation(std::span<std::uint64_t const> mine, std::string_view purpose,
                                         Exchange const& tensor) {
  if (mine.empty()) {
    return std::nullopt;
  }
  auto const all = gather(mine, purpose, tensor);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != all[i % mine.size()]) {
      return Deviation{i / mine.size(), i % mine.size()};
    }
  }
  return std::nullopt;
}

/// Joins the parts of a parameter that tensor ranks divide into `whole`. Collective; waits.
void join_parts(model::ParamDescription const& param, std::span<float const> mine, std::span<float> whole,
                Exchange const& tensor) {
  std::vector<float> all(static_cast<std::size_t>(tensor.world()) * mine.size());
  gather(mine.data(), all.data(), std::ssize(mine), Dtype::fp32, "read", tensor);
  for (int index = 0; index < tensor.world(); ++index) {
    model::CutPart const part{param.name, param.global_shape(), *param.options.cut, {index, tensor.world()}};
    auto const* const of_rank = all.data() + static_cast<std::size_t>(index) * mine.size();
    part.each_run(0, part.count(), [&](model::CutPart::Run const& run) {
      if (!run.is_padding()) {
        std::copy_n(of_rank + run.first, run.count, whole.data() + run.in_whole);
      }
    });
  }
}

/// This rank's part of `whole`; padding is 0.
std::vector<float> part_of(model::ParamDescription const& param, std::span<float const> whole) {
  std::vector<float> mine(static_cast<std::size_t>(param.count), 0.0F);
  param.part->each_run(0, param.count, [&](model::CutPart::Run const& run) {
    if (!run.is_padding()) {
      std::copy_n(whole.data() + run.in_whole, run.count, mine.data() + run.first);
    }
  });
  return mine;
}

}  // namespace

void read_values(shard::ShardManager& manager, ParamId param, std::span<float> values, Runtime const& runtime) {
  auto const& described = manager.memory.model().params[param];
  SliceOwners const owners{runtime.servers ? runtime.workers() : 0, manager.memory.layout().world()};
  auto const exchange = runtime.servers ? runtime.with_servers() : runtime.exchange();
  if (!described.part) {
    return read_values(manager, param, values, owners, exchange);
  }
  std::vector<float> mine(static_cast<std::size_t>(described.count));
  read_values(manager, param, mine, owners, exchange);
  join_parts(described, mine, values, runtime.over_tensor());
}

void write_values(shard::ShardManager& manager, ParamId param, std::span<float const> values, Runtime const& runtime,
                  comm::Communicator* other_stages) {
  auto const& model = manager.memory.model();
  auto const& described = model.params[param];
  if (described.part) {
    return write_values(manager, model, param, part_of(described, values), runtime.exchange(), other_stages);
  }
  write_values(manager, model, param, values, runtime.exchange(), other_stages);
}

void compare_tensor_replicas(shard::ShardManager& manager, shard::States states, std::string_view after,
                             Exchange const& tensor) {
  constexpr std::int64_t piece_bytes = std::int64_t{1} << 18U;
  auto const memory = tensor.device->allocate_host(piece_bytes);
  std::span const piece{memory->data(), static_cast<std::size_t>(piece_bytes)};
  manager.parameters.await_gathers();
  auto const& flats = manager.memory.layout().flats();
  std::vector<shard::FlatId> compared;
  std::vector<std::uint64_t> hashes;
  for (auto const flat : flats.ids()) {
    if (flats[flat].tensor_kind == TensorKind::cut) {
      continue;
    }
    std::uint64_t hash = 0;
    for (auto const placement : {shard::Placement::whole, shard::Placement::group, shard::Placement::shard}) {
      hash = mix(hash, manager.values.hash(flat, placement, states, piece));
    }
    compared.push_back(flat);
    hashes.push_back(hash);
  }
  if (auto const found = first_deviation(hashes, "replicas", tensor)) {
    throw PeerError{fmt::format(
        "rank {}'s unit \"{}\" differs from rank {}'s after {}: tensor ranks that should hold the same do not",
        tensor.job_rank(found->rank), flats[compared[found->at]].name, tensor.job_rank(0), after)};
  }
}

void compare_whole_gradients(shard::ShardManager& manager, int place, std::int64_t step, Exchange const& tensor) {
  constexpr std::int64_t most = std::int64_t{1} << 16U;
  auto const memory = tensor.device->allocate_host(most * bytes_of(Dtype::fp32));
  auto* const on_host = reinterpret_cast<float*>(memory->data());
  tensor.stream->synchronize();  // waits for the reductions
  auto const& layout = manager.memory.layout();
  auto const& model = manager.memory.model();
  std::vector<ParamId> compared;
  std::vector<std::uint64_t> hashes;
  for (auto const param : model.params.ids()) {
    auto const& location = layout.location(param);
    if (!location.trainable || layout.flats()[location.flat].tensor_kind != TensorKind::whole) {
      continue;
    }
    LaneHash hash;
    auto const slice = manager.values.slice_of(param, place);
    for (auto first = slice.begin; first < slice.end; first += most) {
      std::span const piece{on_host, static_cast<std::size_t>(std::min(most, slice.end - first))};
      manager.values.load_gradient(param, first, piece);
      hash.add(std::as_bytes(piece));
    }
    compared.push_back(param);
    hashes.push_back(hash.value());
  }
  if (auto const found = first_deviation(hashes, "gradients", tensor)) {
    throw PeerError{
        fmt::format("step {}: the gradients of parameter \"{}\" differ between ranks {} and {}, which are tensor ranks "
                    "that hold it whole: each must write the same. Either a sum over tensor ranks is missing before it "
                    "(TensorParallel::leave(), enter_backward()), or each writes a part of the gradient: then set its "
                    "ParamOptions::partial to true",
                    step, model.params[compared[found->at]].name, tensor.job_rank(0), tensor.job_rank(found->rank))};
  }
}

void compare_addends(shard::ShardManager& manager, std::int64_t step, Exchange const& tensor) {
  auto const addends = manager.gradients.addends().take();
  if (addends.empty()) {
    return;
  }
  std::vector<std::uint64_t> hashes;
  for (auto const& each : addends) {
    hashes.push_back(each.nonzero_count < least_nonzero_addend ? 0 : each.hash);
  }
  auto const all = gather(std::span<std::uint64_t const>{hashes}, "addends", tensor);
  for (std::size_t at = 0; at < hashes.size(); ++at) {
    bool equal = hashes[at] != 0;
    for (auto of_rank = at; of_rank < all.size(); of_rank += hashes.size()) {
      equal = equal && all[of_rank] == hashes[at];
    }
    if (equal) {
      throw PeerError{
          fmt::format("step {}: all {} tensor ranks wrote the same gradient of parameter \"{}\", which is partial, so "
                      "that its sum over them is {} times the gradient. Write only a part of it on each rank, or set "
                      "its ParamOptions::partial to false",
                      step, tensor.world(), manager.memory.model().params[addends[at].param].name, tensor.world())};
    }
  }
}

}  // namespace zeroth::engine
