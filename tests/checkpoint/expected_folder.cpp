// SPDX-License-Identifier: Apache-2.0
#include "expected_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/checkpoint/record.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::testing {
namespace {

namespace fs = std::filesystem;

/// The ids of existing checkpoints; nullopt for those with an unreadable record.
std::map<std::int64_t, std::optional<std::string>> ids_in(fs::path const& folder) {
  std::map<std::int64_t, std::optional<std::string>> ids;
  std::error_code none;
  for (fs::directory_iterator each{folder, none}, end; !none && each != end; ++each) {
    auto const step = checkpoint::step_of(each->path().filename().string());
    if (!step) {
      continue;
    }
    auto& id = ids[*step];
    try {
      auto const state = checkpoint::read_record(each->path()).program_state;
      id.emplace(reinterpret_cast<char const*>(state.data()), state.size());
    } catch (Error const&) {
    }
  }
  return ids;
}

bool is(std::optional<std::string> const& found, ExpectedCheckpoint const& expected) {
  return found ? *found == expected.id : !expected.seems_whole;
}

}  // namespace

std::vector<std::int64_t> ExpectedFolder::order() const {
  auto const last = checkpoint::step_of(latest.value_or(""));
  std::vector<std::int64_t> before, behind;
  for (auto each = checkpoints.rbegin(); each != checkpoints.rend(); ++each) {
    (last && each->first > *last ? behind : before).push_back(each->first);
  }
  before.insert(before.end(), behind.begin(), behind.end());
  return before;
}

std::optional<std::int64_t> ExpectedFolder::restored() const {
  auto const steps = order();
  auto const first = std::ranges::find_if(steps, [&](auto step) { return checkpoints.at(step).whole; });
  return first == steps.end() ? std::nullopt : std::optional{*first};
}

bool ExpectedFolder::all_damaged() const { return !restored() && (latest || !checkpoints.empty()); }

void ExpectedFolder::save(Attempted const& attempted) {
  checkpoints[attempted.step] = {attempted.id};
  latest = checkpoint::checkpoint_name(attempted.step);
  std::int64_t kept = 0;
  for (auto const step : order()) {
    if (attempted.keep == 0 || step > attempted.step) {
      continue;
    }
    bool const stays = kept < attempted.keep || (attempted.keep_every > 0 && step % attempted.keep_every == 0);
    if (!stays) {
      checkpoints.erase(step);
    } else if (checkpoints[step].seems_whole) {
      ++kept;
    }
  }
}

std::string ExpectedFolder::difference(fs::path const& folder) const {
  auto const ids = ids_in(folder);
  std::string text;
  for (auto const& [step, id] : ids) {
    auto const expected = checkpoints.find(step);
    if (expected == checkpoints.end() || !is(id, expected->second)) {
      text += fmt::format("step {} is of {}, not of {}; ", step, id.value_or("nobody"),
                          expected == checkpoints.end() ? "anybody" : expected->second.id);
    }
  }
  for (auto const& [step, expected] : checkpoints) {
    if (!ids.contains(step)) {
      text += fmt::format("step {} of {} is gone; ", step, expected.id);
    }
  }
  if (auto const name = checkpoint::latest_in(folder); name != latest) {
    text += fmt::format("latest names {}, not {}; ", name.value_or("nothing"), latest.value_or("nothing"));
  }
  return text;
}

std::string ExpectedFolder::adopt(fs::path const& folder, Attempted const& attempted, End end) {
  auto saved = *this;
  saved.save(attempted);
  if (difference(folder).empty()) {
    return {};
  }
  if (end == End::refused) {  // or everything was done except the removal of older checkpoints
    auto without_retention = *this;
    without_retention.save({attempted.step, attempted.id});
    auto const text = without_retention.difference(folder);
    if (text.empty()) {
      *this = without_retention;
      return {};
    }
    return fmt::format("neither as before ({}) nor saved ({})", difference(folder), text);
  }
  auto const ids = ids_in(folder);
  auto const name = checkpoint::latest_in(folder);
  bool const named = name == saved.latest;
  if (!named && name != latest) {
    return fmt::format("latest names {}", name.value_or("nothing"));
  }
  ExpectedFolder found{{}, name};
  for (auto const& [step, id] : ids) {
    if (auto const before = checkpoints.find(step); before != checkpoints.end() && is(id, before->second)) {
      found.checkpoints.insert(*before);
    } else if (step == attempted.step && id == attempted.id) {
      found.checkpoints[step] = {attempted.id};
    } else {
      return fmt::format("step {} is of {}", step, id.value_or("nobody"));
    }
  }
  for (auto const& [step, before] : checkpoints) {
    bool const may_be_gone = named && !saved.checkpoints.contains(step);
    if (!found.checkpoints.contains(step) && !may_be_gone) {
      return fmt::format("step {} of {} is gone, and latest names {}", step, before.id, name.value_or("nothing"));
    }
  }
  if (name != latest && !found.checkpoints.contains(attempted.step)) {
    return fmt::format("latest names {}, which is not there", *name);
  }
  *this = found;
  return {};
}

}  // namespace zeroth::testing
