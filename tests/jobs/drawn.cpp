// SPDX-License-Identifier: Apache-2.0
#include "jobs/drawn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"

namespace zeroth::testing::jobs {
namespace {

constexpr std::int64_t primes[] = {2, 3, 7, 13, 53, 211, 1037, 1999};

int ranks_of(Choice const& choice, char const* option) { return std::stoi(std::string{choice[option]}); }

/// From jobs of which nearly all options are plain to such that have hardly a plain one.
Choice draw_values(std::uint64_t seed, char const* purpose) {
  Random random{seed, purpose};
  constexpr std::size_t plain_of_ten[] = {0, 3, 5, 8};
  auto const plain = random.among(plain_of_ten);
  Choice choice;
  for (std::size_t option = 0; option < options().size(); ++option) {
    auto const value = random.below(options()[option].values.size());
    choice.set(option, random.below(10) < plain ? 0 : value);
  }
  return choice;
}

/// Draws the options of the job that resumes. Options that decide bits keep their values, and so do the groups of
/// two-level sums.
Choice draw_resumed(std::uint64_t seed, Choice const& before) {
  auto choice = draw_values(seed, "resumed");
  for (std::size_t option = 0; option < options().size(); ++option) {
    auto const& [name, role, values] = options()[option];
    bool const free = name == "groups" || name == "size of groups";
    bool const is_walk = name == "nested guards" || name == "order" || name == "goes on" || name == "data" ||
                         name == "program state" || name == "stop" || name == "goes on from";
    if ((role == Role::decides && !free) || is_walk) {
      choice.set(option, before.values()[option]);
    }
  }
  if (before.is("zeroth.two_level_sums", "true")) {
    choice.set("groups", "group_size");
    choice.set("size of groups", before["size of groups"]);
  }
  if (before.is_plain("zeroth.reduce_gradients") && !before.is_plain("gradient_accumulation_steps")) {
    choice.set("zeroth.reduce_gradients", default_reduction(before));
  }
  choice.set("zeroth.tied_gradients", ties_of(before));
  Random random{seed, "resumed pipeline"};  // seldom another one by what draw_values() does
  constexpr std::string_view pipelines[] = {"-", "1", "2", "3"};
  choice.set("zeroth.mesh.pipeline", takes_pipelines(before) ? random.among(pipelines) : "-");
  choice.settle();
  return choice;
}

std::vector<std::int64_t> draw_shape(Random& random) {
  switch (random.below(8)) {
    case 0: return {};
    case 1: return {1};
    case 2: return {1 + static_cast<std::int64_t>(random.below(40)), random.among(primes) % 61 + 1};
    case 3: return {3, 1 + static_cast<std::int64_t>(random.below(5)), 7};
    case 4: return {1024 * (1 + static_cast<std::int64_t>(random.below(3)))};
    case 5: return {1 + static_cast<std::int64_t>(random.below(5000))};
    default: return {random.among(primes)};
  }
}

DrawnParam draw_param(Random& random, std::string name) {
  DrawnParam param{std::move(name), draw_shape(random)};
  param.init = static_cast<int>(random.below(5));
  param.trainable = !random.once_in(5);
  param.has_gradient = !random.once_in(7);
  constexpr float factors[] = {1, 1, 1, 2, 0.5F, 0};
  param.learning_rate_factor = random.among(factors);
  param.weight_decay_factor = random.among(factors);
  return param;
}

bool is_of_pipeline(Choice const& choice) { return !choice.is_plain("zeroth.mesh.pipeline"); }

/// Says where `chunks` may begin. Where ties are summed together, leaves them only where none begins between the units
/// of a parameter.
void divide(std::vector<DrawnUnit>& units, std::uint64_t seed, std::size_t chunks, bool ties_apart) {
  Random random{seed, "messages"};
  constexpr int sizes[] = {6, 7, 64, 301};
  std::size_t begins = units.size();
  auto const join = [&](std::size_t first, std::size_t last) {  // of units that go on with the one before
    auto const more = std::count_if(units.begin() + static_cast<std::ptrdiff_t>(first),
                                    units.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                                    [](DrawnUnit const& unit) { return unit.input_per_sample > 0; });
    bool const possible = begins - static_cast<std::size_t>(more) >= chunks;
    for (auto u = first; possible && u <= last; ++u) {
      units[u].input_per_sample = 0;
    }
    begins -= possible ? static_cast<std::size_t>(more) : 0;
    return possible;
  };
  for (auto& unit : units) {
    unit.input_per_sample = random.among(sizes);
    unit.declares_uses = true;
  }
  for (std::size_t u = 1; u < units.size(); ++u) {
    std::erase_if(units[u].tied, [&](std::string const& name) {
      if (ties_apart) {
        return false;
      }
      auto const owner = std::ranges::find_if(units, [&](DrawnUnit const& unit) {
        return std::ranges::find(unit.params, name, &DrawnParam::name) != unit.params.end();
      });
      return !join(static_cast<std::size_t>(owner - units.begin()) + 1, u);
    });
    if (random.once_in(6)) {
      join(u, u);
    }
  }
}

/// To processes, all of which have a part in the job until it goes on.
void fit(Choice& choice, int processes) {
  if (processes % stages_of(choice) != 0 || processes < stages_of(choice)) {
    choice.set("zeroth.mesh.pipeline", "-");
  }
  auto const stages = stages_of(choice);
  choice.set("ranks", std::to_string(processes / stages));
  if (!choice.is_plain("ranks that go on") && ranks_of(choice, "ranks that go on") * stages > processes) {
    choice.set("ranks that go on", "as many");
  }
}

std::vector<DrawnUnit> draw_units(std::uint64_t seed, Choice const& choice, std::size_t chunks) {
  Random random{seed, "model"};
  auto const wanted = random.once_in(4) ? 7 + random.below(6) : 1 + random.below(6);
  std::vector<DrawnUnit> units(std::max(wanted, chunks));
  std::vector<std::string> made;
  bool const skips = !choice.is_plain("skips units") || !choice.is_plain("skips micro-steps");
  for (std::size_t u = 0; u < units.size(); ++u) {
    auto& unit = units[u];
    auto const params = random.once_in(8) ? 0 : 1 + random.below(3);
    for (std::size_t p = 0; p < params; ++p) {
      unit.params.push_back(draw_param(random, fmt::format("u{}.p{}", u, p)));
    }
    if (!made.empty() && random.once_in(3)) {
      unit.tied.push_back(random.among(made));
    }
    for (auto const& param : unit.params) {
      made.push_back(param.name);
    }
    unit.uses = random.once_in(5) ? 2 + static_cast<int>(random.below(2)) : 1;
    unit.declares_uses = skips || random.once_in(2);
    unit.may_be_skipped = random.once_in(2);
  }
  if (choice.is("nested guards", "root")) {
    units.front().stays_open = true;
    units.front().uses = 1;
    units.front().may_be_skipped = false;
  }
  if (made.empty()) {
    units.back().params.push_back({"u.only", {5}});
  }
  return units;
}

}  // namespace

int stages_of(Choice const& choice) { return is_of_pipeline(choice) ? ranks_of(choice, "zeroth.mesh.pipeline") : 1; }

std::size_t chunks_of(Choice const& choice) {
  bool const several = stages_of(choice) > 1 && choice["zeroth.pipeline.schedule"].starts_with("interleaved_1f1b");
  return static_cast<std::size_t>(stages_of(choice)) * (several ? 2 : 1);
}

int Drawn::ranks() const { return ranks_of(choice, "ranks"); }
int Drawn::ranks_that_go_on() const { return ranks_of(resumed, "ranks"); }
int Drawn::most_ranks() const { return std::max(ranks(), ranks_that_go_on()); }
int Drawn::world() const { return ranks() * stages_of(choice); }
int Drawn::world_that_goes_on() const { return ranks_that_go_on() * stages_of(resumed); }
int Drawn::most_of_world() const { return std::max(world(), world_that_goes_on()); }
int Drawn::ranks_of_reference() const {
  return choice.is_plain("ranks of the reference") ? most_ranks() : other_ranks(choice);
}

bool Drawn::trains(std::string const& param) const {
  return std::ranges::any_of(units, [&](DrawnUnit const& unit) {
    return std::ranges::any_of(unit.params, [&](DrawnParam const& one) { return one.name == param && one.trainable; });
  });
}

Choice draw_choice(std::uint64_t seed, Given const& given) {
  auto choice = draw_values(seed, "options");
  if (Random{seed, "pipeline"}.once_in(2)) {
    choice.set("zeroth.mesh.pipeline", "-");
  } else if (auto const schedule = choice["zeroth.pipeline.schedule"]; schedule.starts_with("interleaved_1f1b")) {
    auto const stages = schedule.substr(schedule.size() - 1);  // seldom drawn together otherwise
    choice.set("zeroth.mesh.pipeline", stages);
    choice.set("gradient_accumulation_steps", stages);
  }
  for (auto const& [option, value] : given.options) {
    choice.set(option, value);
  }
  if (given.ranks) {
    fit(choice, *given.ranks);
  }
  choice.settle();
  return choice;
}

Drawn draw(std::uint64_t seed, Given const& given) {
  Drawn drawn;
  drawn.seed = seed;
  drawn.choice = draw_choice(seed, given);
  drawn.resumed = drawn.choice.is("goes on", "at another stage") ? draw_resumed(seed, drawn.choice) : drawn.choice;
  if (!drawn.choice.is_plain("ranks that go on")) {
    drawn.resumed.set("ranks", drawn.choice["ranks that go on"]);
  }
  if (given.ranks && drawn.world_that_goes_on() > *given.ranks) {
    drawn.resumed.set("zeroth.mesh.pipeline", "-");
    drawn.resumed.settle();
  }
  auto const chunks = std::max(chunks_of(drawn.choice), chunks_of(drawn.resumed));
  drawn.units = draw_units(seed, drawn.choice, chunks);
  if (is_of_pipeline(drawn.choice) || is_of_pipeline(drawn.resumed)) {
    divide(drawn.units, seed, chunks, ties_of(drawn.choice) == "apart");
  }
  Random random{seed, "steps"};
  drawn.steps = 2 + static_cast<int>(random.below(4));
  if (!drawn.choice.is_plain("goes on")) {
    drawn.saved_at = 1 + static_cast<int>(random.below(static_cast<std::size_t>(drawn.steps - 1)));
    auto const more = random.below(static_cast<std::size_t>(drawn.steps - drawn.saved_at));
    drawn.goes_on_at = drawn.saved_at + static_cast<int>(more);
  }
  auto const last = drawn.saved_at > 0 ? drawn.goes_on_at : drawn.steps;
  drawn.stops_at = 1 + static_cast<int>(random.below(static_cast<std::size_t>(last)));
  return drawn;
}

nlohmann::json described(Drawn const& drawn) {
  nlohmann::json page{{"seed", drawn.seed}, {"steps", drawn.steps}, {"stop asked for in", drawn.stops_at}};
  auto const of = [](Choice const& choice) {
    auto list = nlohmann::json::object();
    for (std::size_t option = 0; option < options().size(); ++option) {
      if (auto const value = choice.values()[option]; value != 0) {
        list[options()[option].name] = options()[option].values[value].name;
      }
    }
    return list;
  };
  page["options"] = of(drawn.choice);
  if (drawn.saved_at > 0) {
    page["goes on"] = {
        {"from step", drawn.saved_at}, {"behind step", drawn.goes_on_at}, {"options", of(drawn.resumed)}};
  }
  for (auto const& unit : drawn.units) {
    nlohmann::json of_unit{{"uses", unit.uses}, {"declares uses", unit.declares_uses}, {"tied", unit.tied}};
    of_unit["stays open"] = unit.stays_open;
    of_unit["may be skipped"] = unit.may_be_skipped;
    of_unit["input per sample"] = unit.input_per_sample;
    for (auto const& param : unit.params) {
      of_unit["params"].push_back({{"name", param.name},
                                   {"shape", param.shape},
                                   {"trainable", param.trainable},
                                   {"has a gradient", param.has_gradient},
                                   {"rate factor", param.learning_rate_factor}});
    }
    page["units"].push_back(of_unit);
  }
  return page;
}

}  // namespace zeroth::testing::jobs
