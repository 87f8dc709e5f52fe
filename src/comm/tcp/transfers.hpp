// SPDX-License-Identifier: Apache-2.0
/// Data that one communicator of this rank shows to other ranks and takes from them, over shared memory or the network.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/group.hpp"
#include "comm/tcp/channel.hpp"
#include "comm/tcp/shared_queues.hpp"
#include "comm/tcp/tcp_session.hpp"
#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// A rank shows memory to another one, which takes it in as many parts as it likes. Ranks are those of `group`.
/// One transaction at a time, on the stream's thread. That thread copies data of this machine; the session's thread
/// moves all other data.
class Transfers {
 public:
  using Holds = std::function<bool()>;
  using WaitUntil = std::function<bool(Clock::time_point)>;
  /// Waits until the function returns true, or throws.
  using Await = std::function<void(WaitUntil const&)>;

  /// A part of the data that a rank shows. Only this class may access its members. It must not move until it has
  /// arrived.
  struct Part {
    Part() = default;
    Part(Part const&) = delete;
    Part& operator=(Part const&) = delete;
    ~Part() = default;

    int from = 0;
    Tag tag = Tag::blocks;
    std::int64_t offset = 0, bytes = 0;
    std::uint32_t outline = 0;
    void* to = nullptr;
    bool last = false, borrowed = false, by_network = false;
    std::byte const* at = nullptr;  // its address, once it has arrived
    std::uint32_t number = 0;       // number of the data shown
    std::atomic<bool> done{true};
  };

  Transfers(TcpSession& session, Group const& group, std::shared_ptr<SharedQueues> queues, Await await);

  /// Whether all ranks are on this machine and map each other's memory.
  [[nodiscard]] bool within_memory() const noexcept { return remote_.empty(); }

  /// Sets the collective of later blocks; null if they belong to none. A rank that takes a block which another rank
  /// shows for another collective gets an error.
  void expect(Collective const* collective) noexcept;
  /// Shows `bytes` at `data` to rank `to`. They must not change until all_released(tag).
  void show(int to, Tag tag, void const* data, std::int64_t bytes);
  /// Like show(), without waiting; false if `to` has to take something first.
  [[nodiscard]] bool show_if_room(int to, Tag tag, void const* data, std::int64_t bytes) {
    return show_if_room(to, tag, data, bytes, outline_);
  }
  [[nodiscard]] bool all_released(Tag tag) const;

  /// Begins to take `bytes` from `offset` on of the next data that `from` shows under `tag`; the `last` part releases
  /// it.
  void begin(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last) {
    begin(part, from, tag, offset, bytes, to, last, outline_);
  }
  /// Like begin(), for data that is only read, until release(). It is copied to `to` only if this process does not have
  /// it already.
  void begin_to_borrow(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last);
  /// Whether the part has arrived. If it is in a process of this machine, this call copies it, which may take time.
  [[nodiscard]] bool has_come(Part& part);
  /// The address of a part that has arrived.
  [[nodiscard]] static std::byte const* at(Part const& part) noexcept { return part.at; }
  /// Ends the use of a part that has arrived. Throws if its owner had withdrawn it.
  void release(Part const& part);

  /// Waits until `holds` returns true; it is called whenever something may have changed.
  void wait(Holds const& holds);

  /// Starts sends and receives, which run concurrently with everything else until messages_done(). The list must
  /// outlive that.
  void start_messages(std::span<Collective const> messages);
  [[nodiscard]] bool messages_done();

 private:
  struct Message {
    Collective const* what = nullptr;
    bool begun = false, done = false;
    Part part;
  };
  struct Sent {
    Tag tag = Tag::blocks;
    std::atomic<bool> done{true};
  };
  [[nodiscard]] bool is_here(int rank) const noexcept { return member_of_[static_cast<std::size_t>(rank)] >= 0; }
  [[nodiscard]] int member_of(int rank) const noexcept { return member_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool show_if_room(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline);
  void begin(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last,
             std::uint32_t outline);
  [[nodiscard]] std::optional<std::byte const*> borrow(Part const& part);
  void send(int to, Tag tag, void const* data, std::int64_t bytes, std::uint32_t outline);
  void want(Part& part);
  void advance(Message& message);
  void copy_own_messages(std::span<Collective const> messages) const;
  [[nodiscard]] std::size_t index(int rank, Tag tag) const noexcept {
    return static_cast<std::size_t>(rank) * tag_count + static_cast<std::size_t>(tag);
  }

  TcpSession& session_;
  Group const& group_;
  std::shared_ptr<SharedQueues> queues_;
  Await await_;
  std::vector<int> member_of_;                      // [world]: index among the ranks of this machine, or -1
  std::vector<int> remote_;                         // the other ranks
  std::vector<std::uint32_t> begun_;                // [world * tags]: how many blocks of each rank are taken so far
  std::vector<std::unique_ptr<Sent>> sent_;         // not released by the network yet; free if done
  std::vector<std::unique_ptr<Message>> messages_;  // reused
  std::size_t message_count_ = 0;
  std::vector<bool> full_;  // [world], scratch: whether a rank has no room for messages now
  int member_count_ = 1;
  std::uint32_t outline_ = 0;
  bool spins_;
};

}  // namespace zeroth::comm
