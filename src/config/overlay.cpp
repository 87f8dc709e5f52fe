// SPDX-License-Identifier: Apache-2.0
#include "config/overlay.hpp"

#include <algorithm>
#include <string>

#include "config/names.hpp"

namespace zeroth::config {
namespace {

std::string path_of(std::string const& section, Member const& member) {
  return canonical(section + (section.empty() ? "" : ".") + member.name);
}

void without_lines(Node& node) {
  if (auto* const object = std::get_if<Object>(&node.value)) {
    for (auto& member : *object) {
      member.line = 0;
      without_lines(member.node);
    }
  }
}

void overlay_section(Object& document, Object const& changes, std::string const& section) {
  for (auto const& change : changes) {
    auto const path = path_of(section, change);
    auto const same = [&](Member const& member) { return path_of(section, member) == path; };
    auto const found = std::ranges::find_if(document, same);
    if (found == document.end()) {
      document.push_back(change);
      document.back().line = 0;
      without_lines(document.back().node);
      continue;
    }
    auto* const below = std::get_if<Object>(&found->node.value);
    auto const* const replacement = std::get_if<Object>(&change.node.value);
    if (below != nullptr && replacement != nullptr) {
      overlay_section(*below, *replacement, path);
    } else {
      found->node = change.node;
      found->line = 0;
      without_lines(found->node);
    }
  }
}

}  // namespace

void overlay(Object& document, Object const& changes) { overlay_section(document, changes, ""); }

}  // namespace zeroth::config
