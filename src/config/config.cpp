// SPDX-License-Identifier: Apache-2.0
#include "zeroth/config/config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "config/assemble.hpp"
#include "config/open.hpp"
#include "config/overlay.hpp"
#include "config/print.hpp"
#include "config/read.hpp"
#include "config/rules.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/config/problem.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth {

namespace detail {
/// A program's own functions; null if it has none.
struct Brought {
  std::shared_ptr<optim::CustomRule const> rule;
  std::shared_ptr<optim::Multiply const> multiply;
};
struct ConfigState {
  std::string source;       // the file's name
  config::Object document;  // `values` has views of it
  Brought brought;          // `values` has a view of the rule's name
  ConfigInputs inputs;
  config::Object given, stated;  // `values` has views of them
  config::Values values;
  config::Notes notes;
  std::vector<config::OpenValue> open;
};
}  // namespace detail

namespace {

std::string read_file(std::filesystem::path const& path) {
  try {
    return read_text(path);
  } catch (Unreadable const& error) {
    throw ConfigError{config::Problems{{"", 0, error.what()}}.text(path.string())};
  }
}

/// Puts `rule` in the place of optimizer.type.
void bring(optim::CustomRule const& rule, config::Values& values, config::Problems& problems) {
  auto& type = values.entries[config::index_of<"optimizer.type">];
  if (type.source == config::Source::value) {
    problems.push_back({"optimizer.type", type.line,
                        fmt::format("{}, but the program uses its own rule, \"{}\"; remove optimizer.type",
                                    config::to_text(*type.value), rule.type)});
  } else if (type.source != config::Source::mistake) {
    type = {config::Source::program, type.line, config::Value{std::string_view{rule.type}}};
  }
}

/// The values of a text that is given with the file. Its notes are dropped.
config::Values values_beside(std::string const& name, std::string_view text, config::Object& document) {
  config::Problems problems;
  config::Notes notes;
  document = config::read_document(text, problems);
  auto values = config::read_values(document, problems, notes);
  config::throw_if_any(name, problems);
  return values;
}

/// The parts that a file and its changed copies share.
struct Parts {
  std::string source;
  config::Object document;
  ConfigInputs inputs;
  detail::Brought brought;
};

void judge_notes(config::Values const& values, config::Notes const& notes, config::Problems& problems) {
  if (config::is_strict(values)) {
    for (auto const& note : notes) {
      problems.push_back({note.path, note.line, fmt::format("{} (zeroth.strict is true)", note.text)});
    }
  }
}

std::shared_ptr<detail::ConfigState const> resolve(Parts parts, config::Problems problems) {
  auto state = std::make_shared<detail::ConfigState>();
  state->source = std::move(parts.source);
  state->document = std::move(parts.document);
  state->inputs = std::move(parts.inputs);
  state->brought = std::move(parts.brought);
  auto& values = state->values;
  if (!problems.about_the_whole()) {  // otherwise rules would complain about unread values
    values = config::read_values(state->document, problems, state->notes);
    auto const& [given, given_by, stated, stated_by, changes] = state->inputs;
    if (!stated.empty()) {
      config::take_stated(values, values_beside(stated_by, stated, state->stated), stated_by, problems);
    }
    auto const are_given = given.empty() ? std::nullopt : std::optional{values_beside(given_by, given, state->given)};
    if (are_given) {
      config::fill_open(values, *are_given);
    }
    if (state->brought.rule) {
      bring(*state->brought.rule, values, problems);
    }
    config::derive_all(values);
    config::check_rules(values, problems);
    config::note_assumptions(values, state->notes);
    if (are_given) {
      config::note_ignored(values, *are_given, given_by, state->notes);
    }
    judge_notes(values, state->notes, problems);
    state->open = config::open_values(values);
  }
  config::throw_if_any(state->source, problems);
  return state;
}

std::shared_ptr<detail::ConfigState const> parse(std::string source, std::string_view text,
                                                 ConfigInputs const& inputs) {
  config::Problems problems;
  auto document = config::read_document(text, problems);
  if (!inputs.changes.empty()) {
    config::Problems of_changes;
    auto const changes = config::read_document(inputs.changes, of_changes);
    config::throw_if_any(fmt::format("{}, with changes", source), of_changes);
    config::overlay(document, changes);
  }
  return resolve({std::move(source), std::move(document), inputs, {}}, std::move(problems));
}

}  // namespace

Config::Config(std::shared_ptr<detail::ConfigState const> state) noexcept : state_{std::move(state)} {}

Config Config::from_json(std::string_view text, ConfigInputs const& inputs) {
  return Config{parse("<text>", text, inputs)};
}

Config Config::with(std::string_view changes) const {
  config::Problems problems;
  auto const changed = config::read_document(changes, problems);
  config::throw_if_any(fmt::format("{}, with changes", state_->source), problems);
  auto document = state_->document;
  config::overlay(document, changed);
  return Config{resolve({state_->source, std::move(document), state_->inputs, state_->brought}, {})};
}

Config Config::with(optim::CustomRule rule) const {
  ZEROTH_EXPECTS(!rule.type.empty(), "Config::with: the program's rule has no name");
  ZEROTH_EXPECTS(rule.update, fmt::format("Config::with: the rule \"{}\" has no function", rule.type));
  ZEROTH_EXPECTS(rule.kept_states.size() <= optim::most_states,
                 fmt::format("Config::with: the rule \"{}\" keeps {} states; allowed: up to {}", rule.type,
                             rule.kept_states.size(), optim::most_states));
  for (auto const& state : rule.kept_states) {
    ZEROTH_EXPECTS(std::isfinite(state.initial),
                   fmt::format("Config::with: the rule \"{}\" starts its state \"{}\" from {}; allowed: finite numbers",
                               rule.type, state.name, state.initial));
  }
  auto brought = state_->brought;
  brought.rule = std::make_shared<optim::CustomRule const>(std::move(rule));
  return Config{resolve({state_->source, state_->document, state_->inputs, std::move(brought)}, {})};
}

Config Config::with(optim::Multiply multiply) const {
  ZEROTH_EXPECTS(multiply, "Config::with: the program's function for products is empty");
  auto brought = state_->brought;
  brought.multiply = std::make_shared<optim::Multiply const>(std::move(multiply));
  return Config{resolve({state_->source, state_->document, state_->inputs, std::move(brought)}, {})};
}

Config Config::from_file(std::filesystem::path const& path, ConfigInputs const& inputs) {
  return Config{parse(path.string(), read_file(path), inputs)};
}
Config Config::from_file(std::filesystem::path const& path, std::string_view given) {
  ConfigInputs inputs;
  inputs.given = given;
  return from_file(path, inputs);
}

Dtype Config::compute_dtype() const {
  expect_complete();
  return config::dtype_named(config::compute_dtype(state_->values));
}
Dtype Config::gradient_dtype() const {
  expect_complete();
  return config::dtype_named(state_->values.get<"zeroth.gradient_dtype">());
}

ActivationSettings Config::activation_checkpointing() const { return config::activations(state_->values); }

std::optional<SparseAttention> Config::sparse_attention() const { return config::sparse_attention(state_->values); }
std::optional<optim::NewtonSchulzMethod> Config::newton_schulz_method() const {
  return config::newton_schulz_method(state_->values);
}
PipelineSettings Config::pipeline() const { return config::pipeline(state_->values); }
ParameterServerSettings Config::parameter_server() const { return config::parameter_server(state_->values); }
bool Config::sequence_parallel() const { return state_->values.get<"zeroth.sequence_parallel">(); }
int Config::tensor_ranks() const { return config::tensor_ranks(state_->values); }

std::vector<config::OpenValue> const& Config::open() const noexcept { return state_->open; }
config::Notes const& Config::notes() const noexcept { return state_->notes; }
std::string const& Config::source() const noexcept { return state_->source; }

void Config::expect_complete() const {
  if (state_->open.empty()) {
    return;
  }
  auto const count = state_->open.size();
  auto message = fmt::format("{}: {} required value{} not set", state_->source, count, count == 1 ? " is" : "s are");
  for (auto const& [path, line, text] : state_->open) {
    auto const where = line > 0 ? fmt::format(" (line {}, \"auto\")", line) : std::string{};
    message += fmt::format("\n  {}{}: {}", path, where, text);
  }
  throw ConfigError{message};
}

std::string Config::to_string() const { return config::to_table(state_->values); }
std::string Config::to_json() const { return config::to_json(state_->values); }

Settings Config::settings(int world, std::int64_t largest_unit_count) const {
  ZEROTH_EXPECTS(world >= 1, fmt::format("Config::settings: world is {}; allowed: 1 or more", world));
  ZEROTH_EXPECTS(largest_unit_count >= 0,
                 fmt::format("Config::settings: largest_unit_count is {}; allowed: 0 or more", largest_unit_count));
  expect_complete();
  auto values = state_->values;
  values.given = config::Given{world, largest_unit_count};
  config::derive_all(values);
  config::Problems problems;
  config::check_rules(values, problems);
  config::throw_if_any(state_->source, problems);
  auto settings = config::assemble(values, state_->brought.rule.get());
  if (settings.matrix_update && state_->brought.multiply) {
    std::get<optim::Muon>(settings.matrix_update->rule).multiply = *state_->brought.multiply;
  }
  return settings;
}

}  // namespace zeroth
