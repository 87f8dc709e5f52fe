// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_verify.hpp"

#include <fmt/format.h>

#include <optional>

#include <zeroth/core/error.hpp>
#include <zeroth/engine/work_bar.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/utf8.hpp>

#include "checkpoint_facts.hpp"
#include "readable.hpp"
#include "safe_json.hpp"
#include "saved_elements.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string damage_text(checkpoint::Damage const& damage) {
  if (damage.end == 0) {
    return damage.why + "\n";
  }
  auto text = fmt::format("bytes {} to {}: {}\n", damage.begin, damage.end, damage.why);
  for (auto const& [state, param, first, last, part] : damage.extents.listed) {
    if (param.empty()) {
      text += fmt::format("    {}: bytes {} to {}\n", escaped(state), first, last);
      continue;
    }
    auto const of_part = part.of == 1 ? std::string{} : fmt::format(" of part {} of {}", part.index, part.of);
    text += fmt::format("    {} of {}: elements {} to {}{}\n", escaped(state), config::in_quotes(param), first, last,
                        of_part);
  }
  if (auto const more = damage.extents.count - std::ssize(damage.extents.listed); more > 0) {
    text += fmt::format("    and {} more\n", grouped(more));
  }
  return text;
}

Json damage_as_json(checkpoint::Damage const& damage) {
  Json json{{"why", damage.why}};
  if (damage.end > 0) {
    json["begin"] = damage.begin;
    json["end"] = damage.end;
    json["elements_of"] = Json::array();
    for (auto const& [state, param, first, last, part] : damage.extents.listed) {
      json["elements_of"].push_back({{"state", state},
                                     {"parameter", param.empty() ? Json(nullptr) : Json(param)},
                                     {"first", first},
                                     {"end", last}});
      if (part.of > 1) {
        json["elements_of"].back()["part"] = {{"index", part.index}, {"of", part.of}};
      }
    }
    json["left_out"] = damage.extents.count - std::ssize(damage.extents.listed);
  }
  return json;
}

}  // namespace

Verification verify(std::filesystem::path const& checkpoint) {
  Verification found;
  found.path = checkpoint;
  std::optional<checkpoint::Reader> reader;
  try {
    reader.emplace(checkpoint);
  } catch (DamagedError const& error) {
    if (!std::filesystem::exists(checkpoint)) {
      throw;
    }
    found.no_record = error.what();
    return found;
  }
  found.step = reader->record().position.step;
  found.places = reader->record().contents.places;
  WorkBar bar{"verify", bytes_of_states(reader->record().contents)};
  for (; found.read < found.places && found.damaged.size() < most_wrong_files; ++found.read) {
    auto const place = static_cast<int>(found.read);
    if (auto damage = reader->damage(place, true, [&](std::int64_t bytes) { bar.add(bytes); }); !damage.empty()) {
      found.damaged.push_back({checkpoint::file_name(place), std::move(damage)});
    } else {
      found.bytes += bytes_of_file(checkpoint / checkpoint::file_name(place));
    }
  }
  return found;
}

std::string as_text(Verification const& found, Paper const& paper) {
  if (!found.no_record.empty()) {
    return fmt::format("{}: {}\n", paper.bad("damaged"), found.no_record);
  }
  if (found.whole()) {
    return fmt::format("{}: {}: step {}, {}, {}, every byte as it was written\n", paper.good("whole"),
                       found.path.string(), grouped(found.step), counted(found.places, "file"),
                       readable_bytes(found.bytes));
  }
  auto text = fmt::format("{}: {}: step {}, {} of {}\n", paper.bad("damaged"), found.path.string(), grouped(found.step),
                          std::ssize(found.damaged), counted(found.places, "file"));
  for (auto const& [name, damage] : found.damaged) {
    for (auto const& each : damage) {
      text += fmt::format("  {}: {}", name, damage_text(each));
    }
  }
  if (found.read < found.places) {
    text += fmt::format("  {} behind these were not looked at\n", counted(found.places - found.read, "file"));
  }
  return text;
}

std::string as_json(Verification const& found) {
  Json json{{"path", found.path.string()}, {"whole", found.whole()}};
  if (!found.no_record.empty()) {
    json["why"] = found.no_record;
    return safe_text(json);
  }
  json["step"] = found.step;
  json["places"] = found.places;
  json["bytes"] = found.bytes;
  json["files_read"] = found.read;
  json["damaged"] = Json::array();
  for (auto const& [name, damage] : found.damaged) {
    auto all = Json::array();
    for (auto const& each : damage) {
      all.push_back(damage_as_json(each));
    }
    json["damaged"].push_back({{"file", name}, {"damage", std::move(all)}});
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
