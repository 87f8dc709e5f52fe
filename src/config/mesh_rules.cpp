// SPDX-License-Identifier: Apache-2.0
#include "config/named_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <variant>

namespace zeroth::config {
namespace {

/// For the keys that put ranks into groups. Nothing to report if groups are off.
std::string groups_divide_the_world(std::int64_t size, Values const& values) {
  std::int64_t const world = values.job().world;
  if (world % size == 0) {
    return {};
  }
  auto below = std::min(size, world);
  while (world % below != 0) {
    --below;
  }
  auto above = std::min(size, world);
  while (world % above != 0) {
    ++above;
  }
  auto const nearest = below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
  return fmt::format("{} does not divide {} ranks into groups; nearest: {}", size, world, nearest);
}

/// `said` is the value of DeepSpeed's key; values up to `nothing` mean that it requests nothing.
std::string tensor_ranks_are_said_alike(Values const& values, std::int64_t said, std::int64_t nothing) {
  auto const ranks = values.get<"zeroth.mesh.tensor">();
  return said <= nothing || said == ranks
             ? std::string{}
             : fmt::format("{}, but zeroth.mesh.tensor, Zeroth's key for it, is {}; set both to the same number", said,
                           ranks);
}

}  // namespace

std::string parameters_are_cut_for_groups(Values const& values) {
  auto const size = values.get<"zero_optimization.zero_hpz_partition_size">();
  if (size == 1) {
    return {};
  }
  if (auto const stage = values.get<"zero_optimization.stage">(); stage != 3) {
    return fmt::format("{}, but zero_optimization.stage is {}, and only stage 3 shards parameters; allowed: 1", size,
                       stage);
  }
  return groups_divide_the_world(size, values);
}

std::string states_are_cut_for_groups(Values const& values) {
  auto const size = values.get<"zero_optimization.mics_shard_size">();
  if (size == -1) {
    return {};
  }
  if (size == 0) {
    return "0; allowed: -1 (off), or an integer of at least 1";
  }
  if (values.get<"zero_optimization.stage">() == 0) {
    return fmt::format("{}, but zero_optimization.stage is 0, which shards nothing; allowed: -1, or stages 1 to 3",
                       size);
  }
  if (auto const parameters = values.get<"zero_optimization.zero_hpz_partition_size">(); parameters > 1) {
    return fmt::format("{}, and zero_hpz_partition_size is {}; give one of them", size, parameters);
  }
  return groups_divide_the_world(size, values);
}

std::string sums_of_groups_have_groups(Values const& values) {
  if (!values.get<"zeroth.two_level_sums">()) {
    return {};
  }
  auto const& size = values.entries[index_of<"zeroth.group_size">].value;
  bool const none = size && std::holds_alternative<std::monostate>(*size);
  return none ? "true, but there are no groups; give zeroth.group_size, or zero_optimization.zero_hpz_partition_size "
                "or mics_shard_size"
              : "";
}

std::string group_size_is_used(Values const& values) {
  if (!values.says<"zeroth.group_size">()) {
    return {};
  }
  auto const size = values.get<"zeroth.group_size">();
  auto const of_states = derive::group_size(values);
  if (auto const* const other = std::get_if<std::int64_t>(&of_states); other != nullptr) {
    return *other == size
               ? ""
               : fmt::format("{}, but zero_optimization puts {} ranks into a group; leave this key out", size, *other);
  }
  return values.get<"zeroth.two_level_sums">()
             ? groups_divide_the_world(size, values)
             : fmt::format("{}, but no setting uses groups; set zeroth.two_level_sums, or leave this key out", size);
}

std::string autotp_size_is_alike(Values const& values) {
  return tensor_ranks_are_said_alike(values, values.get<"tensor_parallel.autotp_size">(), 0);
}

std::string tp_size_is_alike(Values const& values) {
  return tensor_ranks_are_said_alike(values, values.get<"tensor_parallel.tensor_parallel.tp_size">(), 1);
}

std::string chunks_take_turns(Values const& values) {
  auto const schedule = values.get<"zeroth.pipeline.schedule">();
  auto const chunks = values.get<"zeroth.pipeline.chunks">();
  if (schedule == "interleaved_1f1b" && chunks == 1) {
    return R"(1, but zeroth.pipeline.schedule "interleaved_1f1b" alternates between chunks; give 2 or more, or use "1f1b")";
  }
  bool const has_one = schedule != "interleaved_1f1b" && schedule != "file";
  return has_one && chunks > 1 ? fmt::format(
                                     "{}, but zeroth.pipeline.schedule \"{}\" has one chunk per stage; allowed: 1, or "
                                     "the schedules \"interleaved_1f1b\" and \"file\"",
                                     chunks, schedule)
                               : "";
}

std::string micro_steps_are_rounds(Values const& values) {
  auto const stages = values.get<"zeroth.mesh.pipeline">();
  if (values.get<"zeroth.pipeline.schedule">() != "interleaved_1f1b" || stages == 1) {
    return {};
  }
  auto const micro_steps = values.get<"gradient_accumulation_steps">();
  return micro_steps % stages == 0
             ? ""
             : fmt::format(
                   "\"interleaved_1f1b\", whose chunks alternate every {} micro-steps (zeroth.mesh.pipeline), but "
                   "gradient_accumulation_steps is {}; allowed: multiples of {}",
                   stages, micro_steps, stages);
}

std::string chunks_begin_in_order(Values const& values) {
  if (!values.says<"zeroth.pipeline.first_units">()) {
    return {};
  }
  if (values.says<"zeroth.pipeline.partition">()) {
    return "is set, but so is zeroth.pipeline.partition; set one of them";
  }
  auto const first = values.get<"zeroth.pipeline.first_units">().copy();
  auto const stages = values.get<"zeroth.mesh.pipeline">();
  auto const chunks = values.get<"zeroth.pipeline.chunks">();
  if (auto const wanted = stages == 1 ? 1 : stages * chunks; std::ssize(first) != wanted) {
    return fmt::format("has length {}, but zeroth.mesh.pipeline is {} and zeroth.pipeline.chunks is {}; allowed: {}",
                       first.size(), stages, chunks,
                       wanted == 1 ? "1 unit" : fmt::format("{} units, one for each chunk", wanted));
  }
  auto const later = std::ranges::adjacent_find(first, std::ranges::greater_equal{});
  if (first.front() != 0) {
    return fmt::format("begins with {}; allowed: 0, the model's first unit", first.front());
  }
  return later == first.end() ? "" : fmt::format("has {} after {}; allowed: increasing numbers", later[1], later[0]);
}

std::string schedule_has_a_file(Values const& values) {
  bool const is_file = values.get<"zeroth.pipeline.schedule">() == "file";
  if (is_file == values.says<"zeroth.pipeline.schedule_file">()) {
    return {};
  }
  return is_file ? R"(is missing, but zeroth.pipeline.schedule is "file"; name the file)"
                 : fmt::format(R"(is set, but zeroth.pipeline.schedule is "{}"; with this key it must be "file")",
                               values.get<"zeroth.pipeline.schedule">());
}

}  // namespace zeroth::config
