// SPDX-License-Identifier: Apache-2.0
/// How the ranks of one communicator on one machine show each other the addresses of their data.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/store/socket.hpp"
#include "comm/tcp/channel.hpp"
#include "comm/tcp/event_count.hpp"
#include "comm/tcp/peer_windows.hpp"
#include "comm/tcp/shared_file.hpp"

namespace zeroth::comm {

/// A few pages that all of these ranks map. They hold a short queue of addresses for every pair of ranks and tag, and
/// an event count for each rank. Small data is in the queue itself. The receiver reads larger data from registered
/// memory, through its windows(). All other data takes the network, and the queue only announces it. Ranks are numbered
/// among the `members`.
///
/// Threads: one at a time calls as rank `me`; any thread may call withdraw() and windows().
class SharedQueues {
 public:
  static constexpr std::int64_t most_inline_bytes = 512;

  /// The other rank shows a different number of bytes than this rank takes.
  struct WrongSize {
    std::int64_t shown = 0;
  };
  /// The other rank shows data of another collective than this rank takes.
  struct WrongCollective {};
  enum class Shown : std::uint8_t { full, here, by_network };

  /// Creates the pages. The others open file(), until close_file().
  SharedQueues(int members, int me);
  /// Maps pages that another process has created. Throws SystemError.
  SharedQueues(SharedFile const& file, int members, int me);
  ~SharedQueues();
  SharedQueues(SharedQueues const&) = delete;
  SharedQueues& operator=(SharedQueues const&) = delete;

  [[nodiscard]] SharedFile file() const { return describe_file(file_.get()); }
  void close_file() noexcept { file_ = {}; }  ///< Call once all have attached.
  [[nodiscard]] bool all_attached() const noexcept;
  [[nodiscard]] EventCount&
  event_count() noexcept;  ///< This rank's; other ranks notify it after they have shown or taken something.

  /// Shows `bytes` at `data`, unless the queue is full. They must not change until has_taken(). If the result is
  /// by_network, only their number is shown: the caller has to send them. The receiver gives the same `outline`.
  [[nodiscard]] Shown show(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline) noexcept;
  /// Whether `to` needs no memory of this rank any more.
  [[nodiscard]] bool has_taken(int to, Tag tag) const noexcept;
  /// The address of a part of message number `number`, from 0, that `from` shows under `tag`; valid until release().
  /// Null if it comes by the network; nullopt if it has not been shown yet. Throws WrongSize if there are fewer bytes,
  /// or more after the `last` part, and WrongCollective if it was shown with another outline.
  [[nodiscard]] std::optional<std::byte const*> borrow(int from, Tag tag, std::uint32_t number, std::int64_t offset,
                                                       std::int64_t bytes, bool last, std::uint32_t outline);
  /// Ends the use of a message. False if `from` had withdrawn it before: then the data read may be garbage.
  [[nodiscard]] bool release(int from, Tag tag, std::uint32_t number) noexcept;
  [[nodiscard]] PeerWindows& windows() noexcept { return windows_; }  ///< Registered memory of the others.
  /// From now on other ranks take no data from this rank's memory, or detect that it was withdrawn.
  void withdraw() noexcept;

 private:
  struct Row;
  struct Queue;
  struct Slot;
  [[nodiscard]] static std::size_t bytes_of(int members) noexcept;
  void map(Descriptor const& file);
  [[nodiscard]] static bool is_by_network(Slot const& slot) noexcept;
  [[nodiscard]] Row& row(int member) const noexcept;
  [[nodiscard]] Queue& queue(int from, int to, Tag tag) const noexcept;
  [[nodiscard]] Slot const* find(int from, Tag tag, std::uint32_t number, std::int64_t offset, std::int64_t bytes,
                                 bool last, std::uint32_t outline) const;
  [[nodiscard]] bool has_withdrawn(int from) const noexcept;

  int members_, me_;
  Descriptor file_;
  std::byte* base_ = nullptr;
  PeerWindows windows_;
  std::vector<std::uint32_t> needed_;  // [members * tags]: how many must be taken until this rank's memory is free
};

}  // namespace zeroth::comm
