// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_facts.hpp"

#include <algorithm>
#include <system_error>

#include <zeroth/checkpoint/file_reader.hpp>
#include <zeroth/tool/config/document.hpp>

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;

void add_states(checkpoint::Space const& space, std::int64_t count, std::vector<StateFacts>& states) {
  for (auto const& state : space.states) {
    auto const same = [&](StateFacts const& each) { return each.name == state.name && each.dtype == state.dtype; };
    auto found = std::ranges::find_if(states, same);
    if (found == states.end()) {
      found = states.insert(states.end(), {state.name, state.dtype, 0});
    }
    found->count += count;
  }
}

void count_params(CheckpointFacts& facts) {
  auto const add = [](ParamCount& count, checkpoint::SavedParam const& param) {
    ++count.params;
    count.elements += param.whole_count();
  };
  for (auto const& space : facts.record.contents.spaces) {
    ParamCount here;
    for (auto const& param : space.params) {
      if (!param.comes_first()) {
        continue;
      }
      add(here, param);
      add(facts.all, param);
      if (!space.trainable) {
        add(facts.frozen, param);
      }
      if (!param.ties.empty()) {
        add(facts.tied, param);
      }
    }
    add_states(space, here.elements, facts.states);
  }
}

}  // namespace

CheckpointFacts look_at(fs::path const& checkpoint) {
  checkpoint::Reader reader{checkpoint};
  CheckpointFacts facts;
  facts.path = checkpoint;
  facts.record = reader.record();
  facts.compute = compute_dtype_of(facts.record);
  facts.record_bytes = bytes_of_file(checkpoint / checkpoint::record_name);
  count_params(facts);
  for (int place = 0; place < facts.record.contents.places && facts.wrong.size() < most_wrong_files; ++place) {
    auto const name = checkpoint::file_name(place);
    for (auto const& damage : reader.damage(place, false)) {
      facts.wrong.push_back({name, damage.why});
    }
    facts.bytes += bytes_of_file(checkpoint / name);
    ++facts.looked_at;
  }
  return facts;
}

std::int64_t bytes_of_file(fs::path const& file) noexcept {
  std::error_code error;
  auto const bytes = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(bytes);
}

std::string compute_dtype_of(checkpoint::Record const& record) {
  config::Problems problems;
  auto const values = config::read_document(record.stage_file, problems);
  auto const* const entry = config::find(values, "data_types.param_dtype");
  auto const* const object = entry == nullptr ? nullptr : std::get_if<config::Object>(&entry->node.value);
  auto const* const value = object == nullptr ? nullptr : config::find(*object, "value");
  auto const* const name = value == nullptr ? nullptr : std::get_if<std::string>(&value->node.value);
  return name == nullptr ? std::string{} : *name;
}

}  // namespace zeroth::tools
