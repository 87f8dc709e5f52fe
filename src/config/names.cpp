// SPDX-License-Identifier: Apache-2.0
#include "config/names.hpp"

#include <algorithm>
#include <unordered_map>

#include "config/foreign_keys.hpp"
#include "config/keys.hpp"
#include "zeroth/tool/config/nearest.hpp"

namespace zeroth::config {
namespace {

/// Calls `f` with every path that a file may use, aliases included.
template <class F>
void for_each_path(F const& f) {
  for (auto const& key : keys) {
    f(key.path);
  }
  for (auto const& alias : aliases) {
    f(alias.written);
  }
  for (auto const& key : foreign_keys()) {
    f(key.path);
  }
}

/// All paths that a file may use, sections included, and whether each one is a section. The empty path is one.
std::unordered_map<std::string_view, bool> const& known_paths() {
  static auto const known = [] {
    std::unordered_map<std::string_view, bool> paths{{"", true}};
    for_each_path([&](std::string_view path) {
      paths.try_emplace(path, false);
      for (auto dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
        paths.insert_or_assign(path.substr(0, dot), true);
      }
    });
    return paths;
  }();
  return known;
}

/// The part of `path` directly below `section`; empty if it is not in there.
std::string_view child(std::string_view path, std::string_view section) {
  if (!section.empty()) {
    if (!path.starts_with(section) || path.size() <= section.size() || path[section.size()] != '.') {
      return {};
    }
    path.remove_prefix(section.size() + 1);
  }
  return path.substr(0, path.find('.'));
}

/// The names in each section, without duplicates. Zeroth's come first, so that they win among equally near names.
std::vector<std::string_view> const& all_names_in(std::string_view section) {
  static auto const known = [] {
    std::unordered_map<std::string_view, std::vector<std::string_view>> names;
    auto const add_with_sections = [&](std::string_view path) {
      std::string_view within;
      while (true) {
        auto const name = child(path, within);
        if (name.empty()) {
          return;
        }
        if (auto& here = names[within]; std::ranges::find(here, name) == here.end()) {
          here.push_back(name);
        }
        within = path.substr(0, within.size() + (within.empty() ? 0 : 1) + name.size());
      }
    };
    for_each_path(add_with_sections);  // Zeroth's keys first
    return names;
  }();
  static std::vector<std::string_view> const none;
  auto const found = known.find(section);
  return found == known.end() ? none : found->second;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }  // npos + 1 is 0

std::string join(std::string_view section, std::string_view name) {
  return std::string{section} + (section.empty() ? "" : ".") + std::string{name};
}

}  // namespace

bool is_known(std::string_view path) { return known_paths().contains(path); }

bool is_section(std::string_view path) {
  auto const found = known_paths().find(path);
  return found != known_paths().end() && found->second;
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (auto const& key : keys) {
    auto const name = child(key.path, section);
    if (!name.empty() && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string canonical(std::string const& path) {
  auto const* const alias = std::ranges::find(aliases, path, &Alias::written);
  return alias == std::end(aliases) ? path : std::string{alias->path};
}

std::string nearest_path(std::string_view section, std::string_view name) {
  std::string_view elsewhere;
  for_each_path([&](std::string_view path) {
    if (elsewhere.empty() && last_part(path) == name) {
      elsewhere = path;
    }
  });
  auto const& names = all_names_in(section);
  auto const near = nearest(name, names);
  if (near.empty() || (!elsewhere.empty() && edit_distance(name, near) > 1)) {
    return std::string{elsewhere};
  }
  return join(section, near);
}

std::string nearest_spelling(std::string_view section, std::string_view name) {
  auto const& names = all_names_in(section);
  auto const near = nearest(name, names);
  bool const spelt = !near.empty() && edit_distance(name, near) <= std::max<std::size_t>(1, name.size() / 4);
  return spelt ? join(section, near) : std::string{};
}

}  // namespace zeroth::config
