// SPDX-License-Identifier: Apache-2.0
#include "stage/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "zeroth/core/error.hpp"

namespace zeroth::stage {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) noexcept {
  auto const first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<Phase> phase_of(char letter) noexcept {
  switch (letter) {
    case 'F': return Phase::forward;
    case 'B': return Phase::backward;
    case 'I': return Phase::backward_inputs;
    case 'W': return Phase::backward_weights;
    default: return std::nullopt;
  }
}

/// Removes a number from the front of `text`.
std::optional<int> take_number(std::string_view& text) noexcept {
  int number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Action> action_of(std::string_view cell) noexcept {
  auto const chunk = take_number(cell);
  auto const phase = cell.empty() ? std::nullopt : phase_of(cell.front());
  if (!chunk || !phase) {
    return std::nullopt;
  }
  cell.remove_prefix(1);
  auto const micro_step = take_number(cell);
  return micro_step && cell.empty() ? std::optional{Action{*phase, *chunk, *micro_step}} : std::nullopt;
}

Actions actions_in(std::string_view line, std::string const& where, PipelineSize const& size, int stage) {
  Actions actions;
  for (int number = 1; !line.empty(); ++number) {
    auto const comma = std::min(line.find(','), line.size());
    auto const cell = trimmed(line.substr(0, comma));
    line.remove_prefix(std::min(comma + 1, line.size()));
    if (cell.empty()) {
      continue;
    }
    auto const action = action_of(cell);
    if (!action) {
      throw ConfigError{fmt::format(R"({}, cell {}: "{}" is not an action; allowed: a chunk, then F, B, I or W, then )"
                                    R"(a micro-step, as in "0F3")",
                                    where, number, cell)};
    }
    if (action->chunk >= size.all_chunks() || action->chunk % size.stages != stage ||
        action->micro_step >= size.micro_steps) {
      throw ConfigError{
          fmt::format("{}, cell {}: \"{}\" names chunk {} and micro-step {}, but stage {} of {} has chunks {}, with {} "
                      "micro-steps each, counted from 0",
                      where, number, cell, action->chunk, action->micro_step, stage, size.stages,
                      size.chunks == 1 ? fmt::format("{} alone", stage)
                                       : fmt::format("{}, {} and so on up to {}", stage, stage + size.stages,
                                                     stage + (size.chunks - 1) * size.stages),
                      size.micro_steps)};
    }
    actions.push_back(*action);
  }
  return actions;
}

}  // namespace

std::vector<Actions> read_schedule(std::filesystem::path const& path, PipelineSize const& size) {
  std::ifstream file{path};
  if (!file) {
    throw ConfigError{
        fmt::format("zeroth.pipeline.schedule_file: {} cannot be read: {}", path.string(), std::strerror(errno))};
  }
  std::vector<Actions> all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    auto const text = trimmed(line);
    if (text.empty() || text.front() == '#') {
      continue;
    }
    auto const where = fmt::format("{}, line {}", path.string(), number);
    if (std::ssize(all) == size.stages) {
      throw ConfigError{fmt::format(
          "{}: is one line too many: there are {} stages (zeroth.mesh.pipeline), and each already has a line", where,
          size.stages)};
    }
    all.push_back(actions_in(text, where, size, static_cast<int>(all.size())));
  }
  if (std::ssize(all) != size.stages) {
    throw ConfigError{fmt::format("{}: has lines for {} stages, but there are {} (zeroth.mesh.pipeline)", path.string(),
                                  all.size(), size.stages)};
  }
  return all;
}

}  // namespace zeroth::stage
