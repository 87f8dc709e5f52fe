// SPDX-License-Identifier: Apache-2.0
/// How the ranks of one communicator that are on one machine show each other where their bytes are.
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

/// A few pages that all of them map. They hold a short queue of addresses for every pair of ranks and tag, and an event
/// count for each rank. A few bytes lie in the queue itself. The receiver finds more in registered memory, by its
/// windows(); anything else takes the network, and the queue only announces it. Ranks are numbered among the `members`.
///
/// Threads: one at a time calls as rank `me`; withdraw() and windows() are for any.
class SharedQueues {
 public:
  static constexpr std::int64_t most_inline_bytes = 512;

  /// The other rank shows another number of bytes than this rank takes.
  struct WrongSize {
    std::int64_t shown = 0;
  };
  /// What is shown belongs to another collective than what is taken.
  struct WrongCollective {};
  enum class Shown : std::uint8_t { full, here, by_network };

  /// Makes the pages. The others open file(), until close_file().
  SharedQueues(int members, int me);
  /// Maps those that another process has made. Throws SystemError.
  SharedQueues(SharedFile const& file, int members, int me);
  ~SharedQueues();
  SharedQueues(SharedQueues const&) = delete;
  SharedQueues& operator=(SharedQueues const&) = delete;

  [[nodiscard]] SharedFile file() const { return describe_file(file_.get()); }
  void close_file() noexcept { file_ = {}; }  ///< Once all have attached.
  [[nodiscard]] bool all_attached() const noexcept;
  [[nodiscard]] EventCount&
  event_count() noexcept;  ///< This rank's; the others notify it when they have shown or taken something.

  /// Shows `bytes` at `data`, which stay as they are until they are has_taken(), unless the queue is full. Where the
  /// answer is by_network only their number is shown: they have to be sent. Who takes them gives the same `outline`.
  [[nodiscard]] Shown show(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline) noexcept;
  /// Whether `to` needs no memory of this rank any more.
  [[nodiscard]] bool has_taken(int to, Tag tag) const noexcept;
  /// Where a part is of what `from` shows as number `number`, from 0, under `tag`: there it stays until release(). Null
  /// if it comes by the network. Nothing if it is not there yet. Throws WrongSize where there are fewer bytes than
  /// that, or more behind the `last` part, and WrongCollective where it was shown with another outline.
  [[nodiscard]] std::optional<std::byte const*> borrow(int from, Tag tag, std::uint32_t number, std::int64_t offset,
                                                       std::int64_t bytes, bool last, std::uint32_t outline);
  /// Needs no more of it. False if `from` had withdrawn it before: then what was read may have been anything.
  [[nodiscard]] bool release(int from, Tag tag, std::uint32_t number) noexcept;
  [[nodiscard]] PeerWindows& windows() noexcept { return windows_; }  ///< Registered memory of the others.
  /// From here on nobody takes what lies in this rank's memory, or notices if he did.
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
