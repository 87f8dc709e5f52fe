// SPDX-License-Identifier: Apache-2.0
#include "config/names.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <unordered_map>

#include "config/foreign_keys.hpp"
#include "config/keys.hpp"

namespace zeroth::config {
namespace {

constexpr std::size_t longest_name = 64;  // what is longer is near to nothing, and not worth the time to find out

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

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

/// All paths that a file may use, sections among them, and whether a path is a section: the empty one is.
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

/// The part of `path` that stands directly in `section`; empty if it does not lie there.
std::string_view child(std::string_view path, std::string_view section) {
  if (!section.empty()) {
    if (!path.starts_with(section) || path.size() <= section.size() || path[section.size()] != '.') {
      return {};
    }
    path.remove_prefix(section.size() + 1);
  }
  return path.substr(0, path.find('.'));
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }  // npos + 1 is 0

std::string join(std::string_view section, std::string_view name) {
  return std::string{section} + (section.empty() ? "" : ".") + std::string{name};
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to) {
  // Row i of the table of distances between the first i and the first j characters; swaps look back two rows.
  std::vector<std::size_t> two_back(to.size() + 1);
  std::vector<std::size_t> back(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    two_back.swap(back);
    back.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t const replaced = back[j - 1] + (same_letter(from[i - 1], to[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, back[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && same_letter(from[i - 1], to[j - 2]) && same_letter(from[i - 2], to[j - 1])) {
        row[j] = std::min(row[j], two_back[j - 2] + 1);
      }
    }
  }
  return row[to.size()];
}

std::string_view nearest(std::string_view name, std::vector<std::string_view> const& names) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, name.size() / 4) + 1;  // at least this far is too far
  if (name.size() > longest_name) {
    return best;
  }
  for (auto const candidate : names) {
    if (auto const distance = edit_distance(name, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  }
  if (best.empty() && name.size() >= 3) {  // perhaps it only lacks its end, or has one too many: "timeout"
    auto const begins = std::ranges::find_if(
        names, [&](auto candidate) { return candidate.starts_with(name) || name.starts_with(candidate); });
    best = begins == names.end() ? best : *begins;
  }
  return best;
}

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
  auto names = names_in(section);  // Zeroth's own first: of equally near names they win
  std::string_view elsewhere;
  for_each_path([&](std::string_view path) {
    if (auto const here = child(path, section); !here.empty()) {
      names.push_back(here);
    }
    if (elsewhere.empty() && last_part(path) == name) {
      elsewhere = path;
    }
  });
  auto const near = nearest(name, names);
  if (near.empty() || (!elsewhere.empty() && edit_distance(name, near) > 1)) {
    return std::string{elsewhere};
  }
  return join(section, near);
}

}  // namespace zeroth::config
