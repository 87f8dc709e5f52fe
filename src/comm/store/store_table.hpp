// SPDX-License-Identifier: Apache-2.0
/// The content of rank 0's store: keys, and gathers in progress.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/key_values.hpp"
#include "comm/store/frame.hpp"
#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

enum class RankState : std::uint8_t { absent, joined, left };
using Roster = std::vector<RankState>;  // [world]

/// Text for messages: "ranks 2 and 5 (not joined)"; long lists are truncated.
[[nodiscard]] std::string describe_ranks(std::vector<int> const& ranks, Roster const& roster);

/// An answer, and its receiver.
struct Reply {
  int rank = 0;
  std::uint64_t tag = 0;
  Kind kind = Kind::answer;
  std::shared_ptr<std::string const> body;
};
[[nodiscard]] std::shared_ptr<std::string const> encode_values(std::vector<std::string> const& values);
[[nodiscard]] std::shared_ptr<std::string const> encode_problem(Problem problem, std::string const& text);

/// Independent of sockets. Every call of a rank gets one reply, at once or later; they are appended to `replies`.
class StoreTable {
 public:
  /// A rank's call.
  struct Call {
    int rank = 0;
    std::uint64_t tag = 0;
  };
  struct Wait {
    Clock::time_point begun, deadline;
  };
  /// `roster` must outlive this.
  explicit StoreTable(Roster const& roster) : roster_{&roster} {}

  /// Sets a key that is deleted after `reads` reads; 0: never.
  void set(Call const& call, std::string const& key, std::string value, std::uint64_t reads = 0);
  void get(Call const& call, std::string const& key, Wait const& wait);
  void gather(Call const& call, std::string const& name, std::string value, Wait const& wait);
  /// For KeyValues. Throws BadFrame if `bytes` are not a KeyValueCall.
  void key_value(Call const& call, std::string_view bytes, Clock::time_point now);
  /// The rank has left: gathers that need it will not be completed. Its own calls get no reply.
  void leave(int rank);
  void expire(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;  ///< max() if no rank waits.

  std::vector<Reply> replies;

 private:
  struct Key {
    std::string value;
    int rank = 0;  // the rank that set it
    std::uint64_t reads_left = 0;
  };
  using Keys = std::map<std::string, Key>;
  struct WaitingGet {
    Call call;
    std::string key;
    Wait wait;
  };
  struct Part {
    Call call;
    std::string value;
    Wait wait;
  };
  using Parts = std::map<int, Part>;  // by rank
  void read(Call const& call, Keys::iterator key);
  void reply(Call const& call, Kind kind, std::shared_ptr<std::string const> body);
  void answer_key_values();
  void refuse(Call const& call, Problem problem, std::string const& text);
  void complete(Parts const& parts);
  [[nodiscard]] std::vector<int> missing_in(Parts const& parts) const;

  Roster const* roster_;
  Keys keys_;
  std::size_t held_bytes_ = 0;
  std::vector<WaitingGet> gets_;
  std::map<std::string, Parts> gathers_;
  KeyValueTable key_values_;  // apart from `keys_`, which are the store's own
  KeyValueTable::Ticket last_ticket_ = 0;
  std::map<KeyValueTable::Ticket, Call> waiting_;
};

}  // namespace zeroth::comm
