// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include <zeroth/checkpoint/folder.hpp>
#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/utf8.hpp>

#include "readable.hpp"
#include "safe_json.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The condition that a name in the folder shows; nullopt if it is not a checkpoint's name.
std::optional<Condition> condition_of(std::string const& name) {
  if (!checkpoint::step_of(name.substr(0, name.find('.')))) {
    return std::nullopt;
  }
  if (name.find('.') == std::string::npos) {
    return Condition::complete;
  }
  return name.ends_with(checkpoint::partial_suffix)   ? std::optional{Condition::partial}
         : name.ends_with(checkpoint::leaving_suffix) ? std::optional{Condition::deleting}
                                                      : std::nullopt;
}

ListedCheckpoint look(fs::path const& path, Condition condition) {
  ListedCheckpoint found{path.filename().string(), condition, {}, bytes_in(path), {}};
  if (condition != Condition::complete) {
    return found;
  }
  try {
    found.facts = look_at(path);
    found.bytes = found.facts->bytes;
    if (!found.facts->wrong.empty()) {
      auto const& first = found.facts->wrong.front();
      found.why = fmt::format("{}: {}", first.name, first.why);
    }
  } catch (Error const& error) {
    found.why = error.what();
  }
  found.condition = found.why.empty() ? Condition::complete : Condition::damaged;
  return found;
}

}  // namespace

std::string_view name_of(Condition condition) noexcept {
  switch (condition) {
    case Condition::complete: return "complete";
    case Condition::damaged: return "damaged";
    case Condition::partial: return "partial";
    case Condition::deleting: return "deleting";
  }
  return "?";
}

std::int64_t bytes_in(fs::path const& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (auto each = fs::directory_iterator{folder, error}; !error && each != fs::directory_iterator{};
       each.increment(error)) {
    std::error_code unknown;
    auto const size = each->is_regular_file(unknown) ? each->file_size(unknown) : 0;
    bytes += unknown ? 0 : static_cast<std::int64_t>(size);
  }
  return bytes;
}

CheckpointList list(fs::path const& folder) {
  CheckpointList list{folder, checkpoint::latest_in(folder), {}};
  std::error_code error;
  for (auto each = fs::directory_iterator{folder, error}; !error && each != fs::directory_iterator{};
       each.increment(error)) {
    if (auto const condition = condition_of(each->path().filename().string())) {
      list.checkpoints.push_back(look(each->path(), *condition));
    }
  }
  if (error) {
    throw SystemError{fmt::format("checkpoints in {}: cannot be listed: {}", folder.string(), error.message())};
  }
  if (list.checkpoints.empty() && !list.latest) {
    static_cast<void>(checkpoint::find_checkpoint(folder));  // throws an error that names what is missing
  }
  std::ranges::sort(list.checkpoints, {}, &ListedCheckpoint::name);
  return list;
}

std::string as_text(CheckpointList const& list, Paper const& paper) {
  std::vector<Row> rows{{list.path.string(), "step", "updates", "saved", "host", "files", "size", "condition"}};
  std::string remarks;
  bool found_latest = false;
  for (auto const& [name, condition, facts, bytes, why] : list.checkpoints) {
    bool const is_latest = name == list.latest;
    found_latest = found_latest || is_latest;
    Row row{fmt::format("{}{}", escaped(name), is_latest ? " *" : "")};
    if (facts) {
      auto const& record = facts->record;
      row.insert(row.end(),
                 {grouped(record.position.step), grouped(record.position.applied), escaped(record.origin.created),
                  escaped(record.origin.host), grouped(record.contents.places)});
    } else {
      row.resize(6);
    }
    row.push_back(readable_bytes(bytes));
    row.emplace_back(name_of(condition));
    rows.push_back(std::move(row));
    if (!why.empty()) {
      remarks += fmt::format("{}: {}\n", escaped(name), why);
    }
  }
  auto const latest = found_latest ? std::string{"* what latest names\n"}
                      : list.latest
                          ? fmt::format("latest names {}, which is not here\n", config::in_quotes(*list.latest))
                          : std::string{"there is no file latest: no save was completed\n"};
  return aligned(rows, paper) + latest + remarks;
}

std::string as_json(CheckpointList const& list) {
  Json json{{"path", list.path.string()},
            {"latest", list.latest ? Json(*list.latest) : Json(nullptr)},
            {"checkpoints", Json::array()}};
  for (auto const& [name, condition, facts, bytes, why] : list.checkpoints) {
    Json entry{{"name", name}, {"condition", name_of(condition)}, {"bytes", bytes}};
    if (facts) {
      auto const& record = facts->record;
      entry.update({{"step", record.position.step},
                    {"updates", record.position.applied},
                    {"created", record.origin.created},
                    {"host", record.origin.host},
                    {"places", record.contents.places}});
    }
    if (!why.empty()) {
      entry["why"] = why;
    }
    json["checkpoints"].push_back(std::move(entry));
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
