// SPDX-License-Identifier: Apache-2.0
/// Ranks that meet through the job's store, without any collective: some of them may never come.
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "comm/key_values.hpp"

namespace zeroth::comm {

/// One meeting of `count` participants, which all know it by the same `name`, unique to it. Throws as
/// KeyValues::call().
class Meeting {
 public:
  Meeting(KeyValues& values, std::string name, int count) : values_{values}, name_{std::move(name)}, count_{count} {}

  enum class IfLate : std::uint8_t {
    leave,   ///< The others still wait, and all may come yet.
    cancel,  ///< The meeting fails for all, also for those that come later.
  };
  /// Participant `me` comes, once. With `cancel` all that have met return together. Returns when all have come, with an
  /// empty list. Otherwise returns those that have not come when `timeout` has passed, or when another participant has
  /// cancelled the meeting; a late one may then get an empty list of a cancelled() meeting.
  [[nodiscard]] std::vector<int> come(int me, std::chrono::milliseconds timeout, IfLate if_late);
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

 private:
  [[nodiscard]] KeyValueAnswer call(KeyValueCall::Action action, std::string_view key, std::string_view value = {},
                                    std::chrono::milliseconds wait = {});
  [[nodiscard]] std::vector<int> missing();
  void clean_up();

  KeyValues& values_;
  std::string name_;
  int count_;
  bool cancelled_ = false;
};

}  // namespace zeroth::comm
