// SPDX-License-Identifier: Apache-2.0
/// Keys and values that all ranks share: the calls, the table that answers them, and the way to it.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroth/core/clock.hpp"

namespace zeroth::comm {

constexpr std::size_t most_key_bytes = 200;
constexpr std::size_t most_key_value_bytes = 4000;
/// An encoded call, whose value and expected value may both be as long.
constexpr std::size_t most_key_value_call_bytes = 2 * most_key_value_bytes + most_key_bytes + 64;

/// Programs and the library have separate tables of keys.
enum class KeySpace : std::uint8_t { program, library };

/// One call of a rank.
struct KeyValueCall {
  /// The functions of KeyValueStore, and for the library `meet`. `get` and `meet` wait for `wait`, which may be 0.
  enum class Action : std::uint8_t {
    set,
    get,
    add,
    compare_set,
    remove,
    meet,  ///< Waits until as many calls as `value` says have come to the key, which are then answered together.
  };
  Action action = Action::get;
  KeySpace space = KeySpace::program;
  std::string key;
  std::string value = {};     ///< For set; the desired one for compare_set; a decimal number for add and meet.
  std::string expected = {};  ///< For compare_set.
  std::chrono::milliseconds wait{0};
};

struct KeyValueAnswer {
  bool found = false;   ///< Whether the key was set, or all have met: when the wait ended; for `remove`, before.
  std::string value;    ///< The key's value after the call.
  std::string problem;  ///< Why the call is a mistake of its program; empty if it is none.
};

/// Bytes for a message. The bytes of a call come from another rank: decode_call() throws std::runtime_error for those
/// that are not a call.
[[nodiscard]] std::string encode(KeyValueCall const& call);
[[nodiscard]] KeyValueCall decode_call(std::string_view bytes);
[[nodiscard]] std::string encode(KeyValueAnswer const& answer);
[[nodiscard]] KeyValueAnswer decode_answer(std::string_view bytes);

/// The content of the store, independent of how calls arrive. One thread at a time.
class KeyValueTable {
 public:
  using Ticket = std::uint64_t;

  /// The answer; nullopt if the call waits. Then `answers` will have it under `ticket`, which is the caller's choice.
  [[nodiscard]] std::optional<KeyValueAnswer> call(KeyValueCall const& call, Ticket ticket, Clock::time_point now);
  /// Ends the waits whose time is up.
  void expire(Clock::time_point now);
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;  ///< max() if no call waits.

  std::vector<std::pair<Ticket, KeyValueAnswer>> answers;  ///< To calls that waited. The owner removes them.

 private:
  struct Waiting {
    Ticket ticket;
    std::string key;
    Clock::time_point deadline;
    bool meets = false;
  };
  /// Empty, or why it does not fit.
  [[nodiscard]] std::string set(std::string const& key, std::string value);
  [[nodiscard]] KeyValueAnswer add(std::string const& key, std::string const& amount);
  [[nodiscard]] KeyValueAnswer compare_set(std::string const& key, KeyValueCall const& call);
  [[nodiscard]] KeyValueAnswer remove(std::string const& key);
  /// Whether this call is the last one. The others are then answered.
  [[nodiscard]] bool meet(std::string const& key, std::string const& count);

  std::map<std::string, std::string> values_;  // keys begin with a letter for their space
  std::size_t held_bytes_ = 0;
  std::vector<Waiting> waiting_;
};

/// One rank's way to the table of its job. Any thread may call.
class KeyValues {
 public:
  KeyValues() = default;
  KeyValues(KeyValues const&) = delete;
  KeyValues& operator=(KeyValues const&) = delete;
  virtual ~KeyValues() = default;
  /// Returns the answer, after the wait of a `get` at the latest. Throws PeerError once the job has failed, or if the
  /// rank that has the table does not answer.
  [[nodiscard]] virtual KeyValueAnswer call(KeyValueCall const& call) = 0;
};

}  // namespace zeroth::comm
