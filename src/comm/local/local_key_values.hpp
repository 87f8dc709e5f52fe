// SPDX-License-Identifier: Apache-2.0
/// Keys and values of ranks that are threads of one process.
#pragma once
#include <condition_variable>
#include <mutex>

#include "comm/abort_state.hpp"
#include "comm/key_values.hpp"

namespace zeroth::comm {

class LocalKeyValues final : public KeyValues {
 public:
  /// `abort` must outlive this.
  explicit LocalKeyValues(AbortState const& abort) : abort_{abort} {}
  [[nodiscard]] KeyValueAnswer call(KeyValueCall const& call) override;

 private:
  [[nodiscard]] std::optional<KeyValueAnswer> take_answer(KeyValueTable::Ticket ticket);

  AbortState const& abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  KeyValueTable table_;
  KeyValueTable::Ticket last_ticket_ = 0;
};

}  // namespace zeroth::comm
