// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/hashes.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/record_format.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

std::string hexadecimal(std::span<std::byte const> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (auto const each : bytes) {
    auto const value = std::to_integer<unsigned>(each);
    text += {digits[value >> 4U], digits[value & 15U]};
  }
  return text;
}

Json json_of(optim::LossScaleState const& state) {
  return {{"scale", static_cast<double>(state.scale)},
          {"hysteresis_left", state.hysteresis_left},
          {"iteration", state.iteration},
          {"last_overflow", state.last_overflow},
          {"exhausted", state.exhausted}};
}

void append_number(std::string& text, std::int64_t number) { fmt::format_to(std::back_inserter(text), "{}", number); }

void append_param(std::string& text, SavedParam const& param) {
  text += R"({"name":)";
  append_quoted(text, param.name);
  text += R"(,"shape":)";
  append_array(text, param.shape, append_number);
  fmt::format_to(std::back_inserter(text), R"(,"at":{})", param.at);
  if (!param.ties.empty()) {
    text += R"(,"ties":)";
    append_array(text, param.ties, append_quoted);
  }
  if (param.cut) {
    auto const& [cut, part] = *param.cut;
    fmt::format_to(std::back_inserter(text), R"(,"cut":{{"dim":{},"sections":)", cut.dim);
    append_array(text, cut.sections, append_number);
    fmt::format_to(std::back_inserter(text), R"(,"multiple":{},"index":{},"of":{}}})", cut.multiple, part.index,
                   part.of);
  }
  text += '}';
}

void append_state(std::string& text, SavedState const& state) {
  text += R"({"name":)";
  append_quoted(text, state.name);
  fmt::format_to(std::back_inserter(text), R"(,"dtype":"{}","base":{}}})", name_of(state.dtype), state.base);
}

void append_space(std::string& text, Space const& space) {
  text += R"({"unit":)";
  append_quoted(text, space.unit);
  fmt::format_to(std::back_inserter(text), R"(,"trainable":{},"first_place":{},"places":{},"slice_count":{}{})",
                 space.trainable, space.first_place, space.places, space.slice_count,
                 space.of_each_rank ? R"(,"of_each_rank":true)" : "");
  text += R"(,"states":)";
  append_array(text, space.states, append_state);
  text += R"(,"params":)";
  append_array(text, space.params, append_param);
  text += '}';
}

}  // namespace

std::string text_of_spaces(Contents const& contents) {
  std::string text = R"({"spaces":)";
  append_array(text, contents.spaces, append_space);
  text += R"(,"errors":)";
  append_array(text, contents.errors, append_space);
  return text + '}';
}

std::string to_text(Record const& record, std::int64_t largest) {
  auto const& position = record.position;
  bool const has_cuts = record.contents.tensor_ranks > 1;
  bool const has_errors = !record.contents.errors.empty();
  bool const has_rank_states = !record.contents.rank_states.empty();
  Json json{{"format", has_rank_states ? format_version
                       : has_errors    ? format_without_rank_states
                       : has_cuts      ? format_without_errors
                                       : format_without_cuts},
            {"save_id", record.save_id},
            {"step", position.step},
            {"applied", position.applied},
            {"samples", position.samples}};
  if (position.applied > position.step) {  // workers that may be stale apply several updates per step
    json["updates_per_step"] = (position.applied + position.step - 1) / std::max(position.step, std::int64_t{1});
  }
  if (position.loss_scale) {
    json["loss_scale"] = json_of(*position.loss_scale);
  }
  if (record.order) {
    json["order"] = {{"size", record.order->size()},
                     {"seed", fmt::format("{}", record.order->seed())},
                     {"shuffled", record.order->shuffled()}};
    if (auto const fingerprint = record.order->fingerprint(); fingerprint != 0) {
      json["order"]["fingerprint"] = fmt::format("{}", fingerprint);
    }
  }
  auto const& origin = record.origin;
  json["created"] = origin.created;
  json["version"] = origin.version;
  json["host"] = origin.host;
  json["process"] = origin.process;
  json["model_seed"] = fmt::format("{}", record.model_seed);  // as a text: the range of JSON numbers ends below 2^64
  json["rounding_seed"] = record.rounding_seed;
  json["optimizer"] = record.optimizer;
  json["stage_file"] = record.stage_file;
  json["program_state"] = hexadecimal(record.program_state);
  json["places"] = record.contents.places;
  if (has_cuts || has_errors || has_rank_states) {
    json["tensor_ranks"] = record.contents.tensor_ranks;
  }
  if (has_rank_states) {
    json["rank_states"] = record.contents.rank_states;
  }
  auto text = json.dump();
  text.pop_back();  // the brace: hash_line() ends the object
  if (has_errors || has_rank_states) {
    text += R"(,"errors":)";
    append_array(text, record.contents.errors, append_space);
  }
  text += R"(,"spaces":)";
  append_array(text, record.contents.spaces, append_space);
  text += hash_line(text);
  if (std::ssize(text) > largest) {
    throw SystemError{
        fmt::format("{} would have {} bytes, with the names and shapes of all parameters; allowed are up to {}",
                    record_name, text.size(), largest)};
  }
  return text;
}

std::string hash_line(std::string_view text) {
  return fmt::format(",\n \"xxh3\": \"{:016x}\"\n}}\n", xxh3(std::as_bytes(std::span{text})));
}

}  // namespace zeroth::checkpoint
