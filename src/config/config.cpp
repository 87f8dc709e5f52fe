// SPDX-License-Identifier: Apache-2.0
#include "zeroth/config/config.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "config/assemble.hpp"
#include "config/overlay.hpp"
#include "config/print.hpp"
#include "config/read.hpp"
#include "config/rules.hpp"
#include "zeroth/config/document.hpp"
#include "zeroth/config/problem.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/core/input_file.hpp"

namespace zeroth {

namespace detail {
struct ConfigState {
  std::string source;                     // the file's name
  config::Object document;                // `values` has views of it
  std::shared_ptr<optim::Own const> own;  // null: the file's optimizer; `values` has a view of its name
  config::Values values;
  Dtype compute = Dtype::fp32;
  Dtype gradient = Dtype::fp32;
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

/// `rule` in the place of optimizer.type.
void bring(optim::Own const& rule, config::Values& values, config::Problems& problems) {
  auto& type = values.entries[config::index_of<"optimizer.type">];
  if (type.source == config::Source::value) {
    problems.push_back({"optimizer.type", type.line,
                        fmt::format("{}, but the program brings a rule of its own, \"{}\"; leave the optimizer out",
                                    config::to_text(*type.value), rule.called)});
  } else if (type.source != config::Source::mistake) {
    type = {config::Source::program, type.line, config::Value{std::string_view{rule.called}}};
  }
}

std::shared_ptr<detail::ConfigState const> resolve(std::string source, config::Object document,
                                                   config::Problems problems,
                                                   std::shared_ptr<optim::Own const> own = {}) {
  auto state = std::make_shared<detail::ConfigState>();
  state->source = std::move(source);
  state->document = std::move(document);
  state->own = std::move(own);
  if (!problems.about_the_whole()) {  // otherwise the rules would complain about what could not be read
    state->values = config::read_values(state->document, problems);
    if (state->own) {
      bring(*state->own, state->values, problems);
    }
    config::derive_all(state->values);
    config::check_rules(state->values, problems);
  }
  config::throw_if_any(state->source, problems);
  state->compute = config::dtype_named(config::compute_dtype(state->values));
  state->gradient = config::dtype_named(state->values.get<"zeroth.gradient_dtype">());
  return state;
}

std::shared_ptr<detail::ConfigState const> parse(std::string source, std::string_view text) {
  config::Problems problems;
  auto document = config::read_document(text, problems);
  return resolve(std::move(source), std::move(document), std::move(problems));
}

}  // namespace

Config::Config(std::shared_ptr<detail::ConfigState const> state) noexcept : state_{std::move(state)} {}

Config Config::from_json(std::string_view text) { return Config{parse("<text>", text)}; }

Config Config::with(std::string_view changes) const {
  config::Problems problems;
  auto const changed = config::read_document(changes, problems);
  config::throw_if_any(fmt::format("{}, with changes", state_->source), problems);
  auto document = state_->document;
  config::overlay(document, changed);
  return Config{resolve(state_->source, std::move(document), {}, state_->own)};
}

Config Config::with(optim::Own rule) const {
  ZEROTH_EXPECTS(!rule.called.empty(), "Config::with: the program's rule has no name");
  ZEROTH_EXPECTS(rule.update, fmt::format("Config::with: the rule \"{}\" has no function", rule.called));
  ZEROTH_EXPECTS(rule.kept.size() <= optim::most_states,
                 fmt::format("Config::with: the rule \"{}\" keeps {} states; allowed: up to {}", rule.called,
                             rule.kept.size(), optim::most_states));
  for (auto const& state : rule.kept) {
    ZEROTH_EXPECTS(std::isfinite(state.initial),
                   fmt::format("Config::with: the rule \"{}\" starts its state \"{}\" from {}; allowed: finite numbers",
                               rule.called, state.name, state.initial));
  }
  return Config{resolve(state_->source, state_->document, {}, std::make_shared<optim::Own const>(std::move(rule)))};
}

Config Config::from_file(std::filesystem::path const& path) { return Config{parse(path.string(), read_file(path))}; }

Dtype Config::compute_dtype() const noexcept { return state_->compute; }
Dtype Config::gradient_dtype() const noexcept { return state_->gradient; }
std::string Config::to_string() const { return config::to_table(state_->values); }
std::string Config::to_json() const { return config::to_json(state_->values); }

Settings Config::settings(int world, std::int64_t largest_unit_count) const {
  ZEROTH_EXPECTS(world >= 1, fmt::format("Config::settings: world is {}; allowed: 1 or more", world));
  ZEROTH_EXPECTS(largest_unit_count >= 0,
                 fmt::format("Config::settings: largest_unit_count is {}; allowed: 0 or more", largest_unit_count));
  auto values = state_->values;
  values.given = config::Given{world, largest_unit_count};
  config::derive_all(values);
  config::Problems problems;
  config::check_rules(values, problems);
  config::throw_if_any(state_->source, problems);
  return config::assemble(values, state_->own.get());
}

}  // namespace zeroth
