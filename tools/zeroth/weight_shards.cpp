// SPDX-License-Identifier: Apache-2.0
#include "weight_shards.hpp"

#include <fmt/format.h>

#include "safe_json.hpp"

namespace zeroth::tools {

std::vector<WeightShard> divide(std::vector<std::int64_t> const& bytes_of_tensors, std::optional<std::int64_t> most) {
  std::vector<WeightShard> shards{{}};
  std::int64_t bytes = 0;
  for (auto const next : bytes_of_tensors) {
    bool const fits = !most || (next <= *most && bytes <= *most - next);
    if (!fits && shards.back().last > shards.back().first) {
      shards.push_back({{}, shards.back().last, shards.back().last});
      bytes = 0;
    }
    bytes += next;
    ++shards.back().last;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1 ? "model.safetensors"
                                        : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

std::string weight_index(std::vector<std::string> const& names, std::vector<WeightShard> const& shards,
                         std::int64_t bytes) {
  nlohmann::ordered_json json{{"metadata", {{"total_size", bytes}}}, {"weight_map", nlohmann::ordered_json::object()}};
  auto& map = json["weight_map"].get_ref<nlohmann::ordered_json::object_t&>();
  for (auto const& shard : shards) {
    for (auto i = shard.first; i < shard.last; ++i) {
      map.emplace_back(names[i], shard.name);  // no search for duplicates: all names differ
    }
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
