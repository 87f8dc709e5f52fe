// SPDX-License-Identifier: Apache-2.0
/// What one communicator of this rank shows to the others and takes from them, whatever lies between.
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

/// A rank shows memory to another one, which takes it, in as many parts as it likes. Ranks are those of `group`.
/// One transaction at a time, on the thread that the stream gives; that thread copies what is on this machine, and the
/// session's thread moves what is not.
class Transfers {
 public:
  using Holds = std::function<bool()>;
  using WaitUntil = std::function<bool(Clock::time_point)>;
  /// Waits until the function says that it is over, or throws.
  using Await = std::function<void(WaitUntil const&)>;

  /// A part of what a rank shows, and for this class alone what is in it. It stays where it is until it is there.
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
    std::byte const* at = nullptr;  // where it is, once it has come
    std::uint32_t number = 0;       // of what is shown
    std::atomic<bool> done{true};
  };

  Transfers(TcpSession& session, Group const& group, std::shared_ptr<SharedQueues> queues, Await await);

  /// Are all ranks on this machine, and map each other's memory?
  [[nodiscard]] bool within_memory() const noexcept { return remote_.empty(); }

  /// The collective that later blocks belong to; null if they belong to none. A rank that takes a block which another
  /// rank shows for another collective gets an error.
  void expect(Collective const* collective) noexcept;
  /// Shows `bytes` at `data` to rank `to`: they stay as they are until all_let_go(tag).
  void show(int to, Tag tag, void const* data, std::int64_t bytes);
  /// The same without waiting; false if `to` has to take something first.
  [[nodiscard]] bool show_if_room(int to, Tag tag, void const* data, std::int64_t bytes) {
    return show_if_room(to, tag, data, bytes, outline_);
  }
  [[nodiscard]] bool all_let_go(Tag tag) const;

  /// Begins to take `bytes` from `offset` on of what `from` shows next under `tag`; the `last` part lets it go.
  void begin(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last) {
    begin(part, from, tag, offset, bytes, to, last, outline_);
  }
  /// As begin(), for what is only read, until release(): it comes to `to` if this process does not have it already.
  void begin_to_borrow(Part& part, int from, Tag tag, std::int64_t offset, std::int64_t bytes, void* to, bool last);
  /// Has it come? Where it lies in a process of this machine, this copies it, which takes as long as it takes.
  [[nodiscard]] bool has_come(Part& part);
  /// Where a part is that has come.
  [[nodiscard]] static std::byte const* at(Part const& part) noexcept { return part.at; }
  /// Needs no more of a part that has come. Throws where its owner had withdrawn it.
  void release(Part const& part);

  /// Waits until `holds`, which is asked whenever something may have changed.
  void wait(Holds const& holds);

  /// Sends and receives under way beside all else, until messages_done(). The list outlives that.
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
  std::vector<int> member_of_;                      // [world]: among those of this machine, or -1
  std::vector<int> remote_;                         // the others
  std::vector<std::uint32_t> begun_;                // [world * tags]: how much of what is shown here is being let go
  std::vector<std::unique_ptr<Sent>> sent_;         // what the network has not let go yet; free where done
  std::vector<std::unique_ptr<Message>> messages_;  // used again
  std::size_t message_count_ = 0;
  std::vector<bool> full_;  // [world], scratch: to whom there is no room for messages now
  int member_count_ = 1;
  std::uint32_t outline_ = 0;
  bool spins_;
};

}  // namespace zeroth::comm
