/// What the functions of the NCCL for tests work on.
#pragma once
#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_nccl/fake_nccl.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::testing::fake_nccl {

enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive };

/// One call in a group.
struct Call {
  Kind kind = Kind::all_reduce;
  void const* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  Dtype dtype = Dtype::fp32;
  int peer = 0;

  [[nodiscard]] bool matches(Call const& other) const noexcept {
    return kind == other.kind && count == other.count && dtype == other.dtype && peer == other.peer;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return count * static_cast<std::size_t>(bytes_of(dtype)); }
};
using Calls = std::vector<Call>;

/// All ranks of one communicator. Streams' threads meet in it.
class Clique {
 public:
  Clique(std::string name, int world)
      : name_{std::move(name)},
        next_(static_cast<std::size_t>(world)),
        aborted_(next_.size()),
        issued_(next_.size()),
        ended_(next_.size()) {}
  [[nodiscard]] int world() const noexcept { return static_cast<int>(next_.size()); }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// Whether all ranks have come to make it; each says so once.
  void join();
  [[nodiscard]] bool complete() const;

  /// Group number `number` of `rank`. Returns when its work is done on all ranks, or `rank` is aborted.
  void run(int rank, std::uint64_t number, Calls const& calls, bool stalls);
  void exchange(int rank, Calls const& calls);
  /// Ends this and every later wait of `rank`.
  void abort(int rank);
  /// Runs `work`, of `rank`'s group that was issued as number `turn`, behind those before it: a communicator's groups
  /// run one after another, whatever streams they are on.
  void in_turn(int rank, std::uint64_t turn, std::function<void()> const& work);
  [[nodiscard]] std::uint64_t next_turn(int rank) { return issued_[static_cast<std::size_t>(rank)]++; }
  /// Numbers groups of collectives as they are issued.
  [[nodiscard]] std::uint64_t next_number(int rank) { return next_[static_cast<std::size_t>(rank)]++; }

  /// Splits under way: what the ranks wish, by number of the split.
  struct Wish {
    int color, key;
  };
  struct Split {
    std::map<int, Wish> wishes;
    std::map<int, std::shared_ptr<Clique>> parts;  // by color
  };
  std::mutex split_mutex;
  std::map<std::uint64_t, Split> splits;

 private:
  struct Meeting {
    std::map<int, Calls> calls;  // by rank
    bool done = false;
    int gone = 0;
  };
  struct Message {
    Call call;
    std::shared_ptr<bool> taken = std::make_shared<bool>(false);
  };
  void work(Meeting const& meeting);

  std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int joined_ = 0;
  std::vector<std::uint64_t> next_;
  std::vector<bool> aborted_;
  std::vector<std::uint64_t> issued_, ended_;
  std::map<std::uint64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::deque<Message>> messages_;  // by sender and receiver
};

/// What was asked for by tests, and counted.
class World {
 public:
  static World& get();
  /// Counts a call, and says whether it is to be refused.
  [[nodiscard]] ncclResult_t enter(char const* function);

  std::mutex mutex;
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, std::pair<int, ncclResult_t>> refusals;
  std::map<std::string, std::shared_ptr<Clique>> by_id;  // that are being made
  std::uint64_t ids = 0;
  std::multimap<std::string, int> policies;
  std::set<std::string> stalled_making;
  std::map<std::string, std::uint64_t> stalled_work;
  struct Break {
    int rank;
    ncclResult_t result;
    std::uint64_t after;
  };
  std::map<std::string, Break> broken_work;
  bool finalize_stalls = false;
  std::set<ncclComm_t> alive;
  std::set<ncclWindow_t> windows;
};

}  // namespace zeroth::testing::fake_nccl

/// NCCL leaves this type open.
struct ncclComm {
  std::shared_ptr<zeroth::testing::fake_nccl::Clique> clique;
  int rank = 0;
  std::thread::id owner = std::this_thread::get_id();
  ncclResult_t error = ncclSuccess;
  bool stalled = false;  // never comes to be
  int asked = 0;         // it is under way for a while, as the real one is
  std::uint64_t splits = 0;
  /// A split that this rank takes part in.
  struct Splitting {
    std::uint64_t number;
    int color;
    ncclComm_t* result;
    std::string name;
    int policy;
  };
  std::optional<Splitting> splitting;
};

struct ncclWindow_vidmem {
  ncclComm_t communicator;
};
