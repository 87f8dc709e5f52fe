// SPDX-License-Identifier: Apache-2.0
/// What MPI threads tell each other beside the collectives: who failed, who left, and where everybody is.
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

/// One message. Small enough to leave at once, whether or not anybody reads: a frozen rank must not hold up others.
struct ControlMessage {
  enum class Kind : std::int32_t {
    failure,   ///< `peer` failed first, for the reason `text`: the job ends.
    noted,     ///< The answer to it.
    question,  ///< Number `number`: have you begun transaction `sequence` of `communicator`, and where are you?
    answer,    ///< To question `number`: the last transaction begun is `sequence`, and the rest is `text`.
    left,      ///< The sender has ended `communicator` after transaction `sequence`.
  };
  Kind kind = Kind::failure;
  std::int32_t sender = 0;  ///< In the world.
  std::int32_t peer = 0;
  std::uint64_t number = 0;
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  std::array<char, 1500> text{};  ///< Ends with a zero; cut off if longer.

  void set_text(std::string_view words) noexcept;
};
static_assert(std::is_trivially_copyable_v<ControlMessage>);

/// Sends and receives them on a communicator of its own. On the MPI thread only; nothing waits.
class MpiControl {
 public:
  explicit MpiControl(MPI_Comm communicator);  ///< Takes the communicator, which close() frees.
  ~MpiControl() = default;                     ///< Makes no MPI calls: what is under way when a job fails is given up.
  MpiControl(MpiControl const&) = delete;
  MpiControl& operator=(MpiControl const&) = delete;

  void send(int to, ControlMessage const& message);
  [[nodiscard]] std::optional<ControlMessage> receive();  ///< The next one that has come.
  [[nodiscard]] bool all_sent();
  /// Meets all other ranks, reads what they still sent, and frees the communicator. Waits.
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
  std::list<Sending> sending_;  // a list: MPI reads messages where they are
};

}  // namespace zeroth::comm
