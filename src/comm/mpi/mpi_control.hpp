// SPDX-License-Identifier: Apache-2.0
/// Control messages between MPI threads, separate from collectives: failures, leaving ranks, and status queries.
#pragma once
#include <mpi.h>

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace zeroth::comm {

/// One message. Small enough for an eager send, which needs no receiver: a frozen rank must not block others.
struct ControlMessage {
  enum class Kind : std::int32_t {
    failure,    ///< `peer` failed first, for the reason `text`: the job ends.
    noted,      ///< Acknowledges `failure`.
    question,   ///< Query `number`: which transaction of `communicator` have you begun last, and what is your status?
    answer,     ///< Answer to query `number`: the last transaction begun is `sequence`; `text` is the status.
    left,       ///< The sender has ended `communicator` after transaction `sequence`.
    key_value,  ///< A part of the sender's KeyValueCall `number`: `peer` bytes of `text`, of `sequence` in all.
    key_value_answer,  ///< The same of its answer.
  };
  Kind kind = Kind::failure;
  std::int32_t sender = 0;  ///< In the world.
  std::int32_t peer = 0;
  std::uint64_t number = 0;
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  std::array<char, 1500> text{};  ///< Zero-terminated; truncated if longer.

  void set_text(std::string_view words) noexcept;
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);

/// Sends and receives control messages on its own communicator. Call only on the MPI thread; never waits.
class MpiControl {
 public:
  explicit MpiControl(MPI_Comm communicator);  ///< Takes ownership of the communicator; close() frees it.
  ~MpiControl() = default;  ///< Makes no MPI calls: after a failure, messages in flight are abandoned.
  MpiControl(MpiControl const&) = delete;
  MpiControl& operator=(MpiControl const&) = delete;

  void send(int to, ControlMessage const& message);
  [[nodiscard]] std::optional<ControlMessage> receive();  ///< The next received message.
  [[nodiscard]] bool all_sent();
  /// Waits for all other ranks, drains their last messages, and frees the communicator.
  void close();

 private:
  struct Sending {
    ControlMessage message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void listen();

  MPI_Comm communicator_;
  int rank_ = 0;
  ControlMessage incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;  // a list, because MPI reads messages in place
};

}  // namespace zeroth::comm
