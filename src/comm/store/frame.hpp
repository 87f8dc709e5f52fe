// SPDX-License-Identifier: Apache-2.0
/// The messages of the store as bytes: a head of 13 bytes {size of the body, kind, tag}, then the body. Numbers are
/// little-endian.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace zeroth::comm {

/// The kinds of messages, with their senders: C is a rank, S is rank 0's store. The last one is `last_kind`.
enum class Kind : std::uint8_t {
  hello = 1,       ///< C: a Hello. The first message of every connection.
  welcome,         ///< S: the heartbeat timeout in milliseconds.
  refusal,         ///< S: Refusal, and the reason as text.
  set,             ///< S: key, value, reads after which it is deleted; 0: never.
  get,             ///< C: key, milliseconds to wait.
  gather,          ///< C: name, value, milliseconds to wait.
  answer,          ///< S: values, for the call with the same tag.
  problem,         ///< S: Problem, and a description, for the call with the same tag.
  beat,            ///< Both: a heartbeat. C also sends for how many milliseconds it has not heard from S.
  abort,           ///< C: a reason.
  aborted,         ///< S: the rank that caused it, and the reason.
  leave,           ///< C: will not take part any more.
  closing,         ///< S: rank 0 leaves.
  unheard,         ///< C: a reason: it hears nothing from S any more, and reads no further.
  timeout_query,   ///< Both: a rank's wait has timed out; every waiting rank now reports for which ranks it waits.
  timeout_report,  ///< C: a reason, and a Contact for each rank.
  key_value,       ///< C: a KeyValueCall.
};
constexpr Kind last_kind = Kind::key_value;
/// ConfigError or PeerError on the rejected rank. `job` is a ConfigError too, unless the job may have another port.
enum class Refusal : std::uint8_t { config = 1, peer, job };
/// ContractError, PeerError or LateError for the caller.
enum class Problem : std::uint8_t { contract = 1, peer, late };

constexpr std::size_t head_bytes = 13;
constexpr std::size_t most_token_bytes = 256;
constexpr std::size_t most_name_bytes = 256;  ///< For keys, gathers and hosts.
constexpr std::size_t most_value_bytes = 4096;
constexpr std::size_t most_hello_bytes = 1024;
/// The largest body from a rank: a value and its name, a call of the key-value store, or a reason and a byte for each
/// rank.
[[nodiscard]] constexpr std::size_t most_call_bytes(int world) noexcept {
  return std::max<std::size_t>(9216, most_value_bytes + static_cast<std::size_t>(world) + 64);
}
constexpr std::uint64_t most_ranks = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t longest_wait_ms = std::uint64_t{1} << 40;  ///< Bounds every time in a message.
/// The largest body from rank 0: the values of all ranks.
[[nodiscard]] constexpr std::size_t most_answer_bytes(int world) noexcept {
  return static_cast<std::size_t>(world) * (most_value_bytes + 4) + 1024;
}

/// The interval of a rank's heartbeats. After three missing ones rank 0 may name the rank as silent.
[[nodiscard]] constexpr std::chrono::milliseconds beat_interval(std::chrono::milliseconds heartbeat_timeout) noexcept {
  return heartbeat_timeout / 5;
}
/// Time for waiting ranks to query each other, which takes a second, and to report the answers.
constexpr std::chrono::seconds patience_for_timeout_reports{3};

struct Frame {
  Kind kind = Kind::beat;
  std::uint64_t tag = 0;
  std::string body;
};

/// Bytes that are not a valid message.
struct BadFrame : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Head {
  std::uint32_t body_bytes = 0;
  std::uint8_t kind = 0;
  std::uint64_t tag = 0;
};
[[nodiscard]] std::array<char, head_bytes> encode(Head const& head) noexcept;
[[nodiscard]] Head decode_head(std::string_view bytes) noexcept;  ///< Needs at least head_bytes.

/// Builds a body.
class Body {
 public:
  Body& number(std::uint64_t value);
  Body& text(std::string_view value);  ///< Any bytes.
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Parses a body, in the same order. Throws BadFrame if a field is missing or not allowed.
class BodyReader {
 public:
  explicit BodyReader(std::string_view bytes) : rest_{bytes} {}
  std::uint64_t number();
  std::uint64_t number(std::uint64_t least, std::uint64_t most);
  std::string text(std::size_t most_bytes);
  void end() const;  ///< Throws BadFrame if bytes are left.

 private:
  std::string_view take(std::size_t bytes);
  std::string_view rest_;
};

constexpr std::uint64_t protocol_version = 6;

/// How a rank introduces itself. With another version, no other member is set.
struct Hello {
  std::uint64_t version = protocol_version;
  std::string token;
  int rank = 0;
  int world = 1;
  std::string host;
};
[[nodiscard]] std::string encode(Hello const& hello);
/// Throws BadFrame.
[[nodiscard]] Hello decode_hello(std::string_view body);

}  // namespace zeroth::comm
