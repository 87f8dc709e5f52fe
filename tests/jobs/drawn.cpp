// SPDX-License-Identifier: Apache-2.0
#include "jobs/drawn.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "jobs/random.hpp"
#include "jobs/stage_file.hpp"

namespace zeroth::testing::jobs {
namespace {

constexpr int most_of_a_machine = 8;  // ranks of a job with tensor ranks
constexpr std::int64_t primes[] = {2, 3, 7, 13, 53, 211, 1037, 1999};

int ranks_of(Choice const& choice, char const* option) { return std::stoi(std::string{choice[option]}); }

/// The value of an option, or `now` if the option is plain.
int next_of(Choice const& choice, char const* option, int now) {
  return choice.is_plain(option) ? now : ranks_of(choice, option);
}

/// From jobs with nearly all options plain to jobs with hardly a plain option.
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

/// Seldom draws any, since most other options contradict them. They need stage 0.
void draw_servers(Random& random, Choice& choice) {
  if (!random.once_in(5)) {
    choice.set("zeroth.parameter_server.servers", "-");
  } else if (!choice.is_plain("zeroth.parameter_server.servers")) {
    choice.set("zero_optimization.stage", "0");
  }
}

/// Draws the options of the job that resumes. Options that decide bits keep their values, and so do the groups of
/// two-level sums.
Choice draw_resumed(std::uint64_t seed, Choice const& before) {
  auto choice = draw_values(seed, "resumed");
  std::vector<bool> kept(options().size());
  for (std::size_t option = 0; option < options().size(); ++option) {
    auto const& [name, role, values] = options()[option];
    bool const free = name == "groups" || name == "size of groups";
    bool const is_walk = name == "nested guards" || name == "order" || name == "goes on" || name == "data" ||
                         name == "program state" || name == "stop" || name == "goes on from";
    kept[option] = (role == Role::decides && !free) || is_walk;
    if (kept[option]) {
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
  Random random{seed, "resumed pipeline"};  // draw_values() rarely changes it
  constexpr std::string_view pipelines[] = {"-", "1", "2", "3"};
  choice.set("zeroth.mesh.pipeline", takes_pipelines(before) ? random.among(pipelines) : "-");
  draw_servers(random, choice);
  choice.settle(before, kept);
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

std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Draws a cut, whose sections add up to the dimension, which may grow. In half of the draws `parts` divides every
/// section; otherwise, and in some of these draws, parts are padded to a multiple.
Cut draw_cut(Random& random, std::vector<std::int64_t>& shape, std::int64_t parts) {
  Cut cut{static_cast<int>(random.below(shape.size()))};
  auto& extent = shape[static_cast<std::size_t>(cut.dim)];
  bool const is_even = random.once_in(2);
  auto left = extent;
  for (auto more = random.below(3); more > 0 && left > 1; --more) {
    cut.sections.push_back(1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(left - 1))));
    left -= cut.sections.back();
  }
  cut.sections.push_back(left);
  extent = 0;
  for (auto& section : cut.sections) {
    section = is_even ? rounded_up(section, parts) : section;
    extent += section;
  }
  constexpr std::int64_t multiples[] = {1, 2, 3, 16};
  cut.multiple = is_even && !random.once_in(3) ? 0 : random.among(multiples);
  if (cut.sections.size() == 1 && random.once_in(2)) {
    cut.sections.clear();
  }
  return cut;
}

/// Draws the part of each parameter that tensor ranks have, also for the resumed job, which may have another number of
/// them.
void divide_among_tensor_ranks(std::vector<DrawnUnit>& units, std::uint64_t seed, int now, int next) {
  Random random{seed, "tensor ranks"};
  auto const parts = std::lcm(now, next);
  for (auto& unit : units) {
    for (auto& param : unit.params) {
      auto const draw_division = [&](std::vector<std::int64_t>& shape) -> DrawnParam::Division {
        if (!shape.empty() && random.below(3) > 0) {
          return {draw_cut(random, shape, parts)};
        }
        return {{}, random.once_in(2)};
      };
      param.division = param.division_that_goes_on = draw_division(param.shape);
      auto shape = param.shape;
      auto const other = draw_division(shape);
      if (now != next && shape == param.shape) {
        param.division_that_goes_on = other;
      }
    }
  }
}

bool is_of_pipeline(Choice const& choice) { return !choice.is_plain("zeroth.mesh.pipeline"); }

/// Draws the units at which `chunks` may begin. If uses of ties are summed together, keeps a tie only if no chunk
/// begins between its units.
void divide(std::vector<DrawnUnit>& units, std::uint64_t seed, std::size_t chunks, bool ties_apart) {
  Random random{seed, "messages"};
  constexpr int sizes[] = {6, 7, 64, 301};
  std::size_t begins = units.size();
  auto const join = [&](std::size_t first, std::size_t last) {  // no chunk begins at these units
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

/// Fits the choice to `processes` processes, all of which take part in the job until it resumes.
void fit(Choice& choice, int processes) {
  if (servers_of(choice) >= processes) {
    choice.set("zeroth.parameter_server.servers", "-");
    choice.settle();
  }
  processes -= servers_of(choice);
  for (auto const* const axis : {"zeroth.mesh.pipeline", "zeroth.mesh.tensor"}) {
    if (processes % (stages_of(choice) * tensor_of(choice)) != 0) {
      choice.set(axis, "-");
    }
  }
  auto const ranks = processes / (stages_of(choice) * tensor_of(choice));
  choice.set("ranks", std::to_string(ranks));
  if (next_of(choice, "ranks that go on", ranks) * stages_of(choice) *
          next_of(choice, "tensor ranks that go on", tensor_of(choice)) >
      processes) {
    choice.set("ranks that go on", "as many");
    choice.set("tensor ranks that go on", "as many");
  }
}

/// Tensor ranks take the place of others in a job that would have too many for a machine.
void fit_on_a_machine(Choice& choice) {
  while (tensor_of(choice) > 1 && ranks_of(choice, "ranks") > 1 &&
         ranks_of(choice, "ranks") * stages_of(choice) * tensor_of(choice) > most_of_a_machine) {
    choice.set("ranks", std::to_string(ranks_of(choice, "ranks") - 1));
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
  auto const is_matrix = [](DrawnParam const& param) { return param.trainable && param.shape.size() == 2; };
  bool const has_matrices =
      std::ranges::any_of(units, [&](DrawnUnit const& unit) { return std::ranges::any_of(unit.params, is_matrix); });
  if (choice["optimizer"].starts_with("Muon") && !has_matrices) {
    units.front().params.push_back({"u.matrix", {29, 53}});
  }
  Random which{seed, "fp32 parameters"};
  Random which_unit{seed, "reshards"};
  for (auto& unit : units) {
    unit.reshards = choice.is("reshards after forward", "all") ||
                    (choice.is("reshards after forward", "some") && which_unit.once_in(2));
    for (auto& param : unit.params) {
      param.fp32 = choice.is("fp32 parameters", "all") || (choice.is("fp32 parameters", "some") && which.once_in(2));
    }
  }
  return units;
}

}  // namespace

int stages_of(Choice const& choice) { return is_of_pipeline(choice) ? ranks_of(choice, "zeroth.mesh.pipeline") : 1; }

int tensor_of(Choice const& choice) {
  return choice.is_plain("zeroth.mesh.tensor") ? 1 : ranks_of(choice, "zeroth.mesh.tensor");
}

std::size_t chunks_of(Choice const& choice) {
  bool const several = stages_of(choice) > 1 && choice["zeroth.pipeline.schedule"].starts_with("interleaved_1f1b");
  return static_cast<std::size_t>(stages_of(choice)) * (several ? 2 : 1);
}

int Drawn::ranks() const { return ranks_of(choice, "ranks"); }
bool Drawn::changes_ranks() const {
  return ranks() != ranks_of(resumed, "ranks") || choice["zeroth.mesh.tensor"] != resumed["zeroth.mesh.tensor"];
}
int servers_of(Choice const& choice) {
  return choice.is_plain("zeroth.parameter_server.servers") ? 0 : ranks_of(choice, "zeroth.parameter_server.servers");
}

bool has_stale_workers(Choice const& choice) {
  auto const staleness = choice["zeroth.parameter_server.staleness"];
  return staleness != "-" && staleness != "0" && ranks_of(choice, "ranks") > 1;
}

int Drawn::world() const { return ranks() * tensor_of(choice) * stages_of(choice) + servers_of(choice); }
int Drawn::world_that_goes_on() const {
  return ranks_of(resumed, "ranks") * tensor_of(resumed) * stages_of(resumed) + servers_of(resumed);
}
int Drawn::most_of_world() const { return std::max(world(), world_that_goes_on()); }
int Drawn::world_of_reference() const {
  return tensor_of(choice) * (choice.is_plain("ranks of the reference") ? ranks() : other_ranks(choice));
}
int Drawn::world_of_reference_that_goes_on() const { return ranks_of(resumed, "ranks") * tensor_of(resumed); }
int Drawn::most_of_reference() const {
  return changes_ranks() ? std::max(world_of_reference(), world_of_reference_that_goes_on()) : world_of_reference();
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
  if (Random{seed, "tensor"}.once_in(2)) {
    choice.set("zeroth.mesh.tensor", "-");
  }
  Random of_servers{seed, "servers"};
  draw_servers(of_servers, choice);
  for (auto const& [option, value] : given.options) {
    choice.set(option, value);
  }
  if (servers_of(choice) > 0 && has_stale_workers(choice)) {
    choice.set("gradient_clipping", "0");  // seldom drawn with them otherwise
  }
  choice.settle();  // first, because ranks that it removes from other axes become data ranks
  given.ranks ? fit(choice, *given.ranks) : fit_on_a_machine(choice);
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
  if (!drawn.choice.is_plain("tensor ranks that go on")) {
    drawn.resumed.set("zeroth.mesh.tensor", drawn.choice["tensor ranks that go on"]);
    drawn.resumed.settle();
  }
  auto const most = given.ranks.value_or(tensor_of(drawn.resumed) > 1 ? most_of_a_machine : drawn.world_that_goes_on());
  if (drawn.world_that_goes_on() > most) {
    drawn.resumed.set("zeroth.mesh.pipeline", "-");
    drawn.resumed.set("zeroth.parameter_server.servers", "-");
    drawn.resumed.settle();
  }
  auto const chunks = std::max(chunks_of(drawn.choice), chunks_of(drawn.resumed));
  drawn.units = draw_units(seed, drawn.choice, chunks);
  if (is_of_pipeline(drawn.choice) || is_of_pipeline(drawn.resumed)) {
    divide(drawn.units, seed, chunks, ties_of(drawn.choice) == "apart");
  }
  auto const is_plain = [](Choice const& choice) { return choice.is_plain("zeroth.mesh.tensor"); };
  if (!is_plain(drawn.choice) || !is_plain(drawn.resumed)) {
    divide_among_tensor_ranks(drawn.units, seed, tensor_of(drawn.choice), tensor_of(drawn.resumed));
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

namespace {

std::string in_words(DrawnParam::Division const& division) {
  if (auto const& cut = division.cut) {
    return fmt::format("a part along {} in sections [{}], a multiple of {}", cut->dim, fmt::join(cut->sections, ", "),
                       cut->multiple);
  }
  return division.partial ? "all, and a part of the gradient" : "all";
}

}  // namespace

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
    of_unit["reshards"] = unit.reshards;
    of_unit["may be skipped"] = unit.may_be_skipped;
    of_unit["input per sample"] = unit.input_per_sample;
    for (auto const& param : unit.params) {
      of_unit["params"].push_back({{"name", param.name},
                                   {"shape", param.shape},
                                   {"trainable", param.trainable},
                                   {"has a gradient", param.has_gradient},
                                   {"fp32", param.fp32},
                                   {"tensor ranks have", in_words(param.division)},
                                   {"those that go on have", in_words(param.division_that_goes_on)},
                                   {"rate factor", param.learning_rate_factor}});
    }
    page["units"].push_back(of_unit);
  }
  return page;
}

}  // namespace zeroth::testing::jobs
