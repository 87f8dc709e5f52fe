#include "zeroth/config/config.hpp"

#include <fmt/format.h>

#include <utility>

#include "config/assemble.hpp"
#include "config/document.hpp"
#include "config/overlay.hpp"
#include "config/print.hpp"
#include "config/problem.hpp"
#include "config/read.hpp"
#include "config/rules.hpp"
#include "core/input_file.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth {

namespace detail {
struct ConfigState {
  std::string source;       // the file's name
  config::Object document;  // `values` has views of it
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

std::shared_ptr<detail::ConfigState const> resolve(std::string source, config::Object document,
                                                   config::Problems problems) {
  auto state = std::make_shared<detail::ConfigState>();
  state->source = std::move(source);
  state->document = std::move(document);
  if (!problems.about_the_whole()) {  // otherwise the rules would complain about what could not be read
    state->values = config::read_values(state->document, problems);
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
  return Config{resolve(state_->source, std::move(document), {})};
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
  return config::assemble(values);
}

}  // namespace zeroth
