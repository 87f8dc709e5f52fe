// SPDX-License-Identifier: Apache-2.0
/// What the functions of the NCCL for tests work on.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_nccl/board.hpp"
#include "support/fake_nccl/fake_nccl.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/reduce.hpp"

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
  Reduce reduce = Reduce::sum;

  [[nodiscard]] bool matches(Call const& other) const noexcept {
    return kind == other.kind && count == other.count && dtype == other.dtype && peer == other.peer &&
           reduce == other.reduce;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return count * static_cast<std::size_t>(bytes_of(dtype)); }
};
using Calls = std::vector<Call>;

/// All ranks of one communicator. Streams' threads meet in it.
class Clique {
 public:
  Clique(std::string id, std::string name, int world, std::unique_ptr<Board> board);
  [[nodiscard]] int world() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] std::string const& id() const noexcept { return id_; }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// Whether all ranks have come to make it; each says so once.
  void join(int rank);
  [[nodiscard]] bool complete() const;

  /// Group number `number` of `rank`. Returns when all ranks have come to it and this one has what it gets from them,
  /// or when `rank` is aborted.
  void run(int rank, std::uint64_t number, Calls const& calls, bool stalls);
  void exchange(int rank, Calls const& calls);
  /// Ends this and every later wait of `rank`.
  void abort(int rank);
  /// Runs `work`, of `rank`'s group that was issued as number `turn`, behind those before it: a communicator's groups
  /// run one after another, whatever streams they are on.
  void in_turn(int rank, std::uint64_t turn, std::function<void()> const& work);
  [[nodiscard]] std::uint64_t next_turn(int rank) { return ranks_[static_cast<std::size_t>(rank)].issued++; }
  /// Numbers groups of collectives as they are issued.
  [[nodiscard]] std::uint64_t next_number(int rank) { return ranks_[static_cast<std::size_t>(rank)].next++; }

  /// What all ranks who are connected by their first such calls say when they come to it.
  void meet(std::string const& point) { board_->post(point, {}); }
  [[nodiscard]] bool have_met(std::vector<std::string> const& points) const;

  /// What ranks want of split number `number`.
  struct Wish {
    int color, key;
  };
  void wish(int rank, std::uint64_t number, Wish const& wish);
  /// [world]; empty until all have said it.
  [[nodiscard]] std::vector<Wish> wishes(std::uint64_t number) const;

 private:
  struct Rank {
    std::uint64_t next = 0, issued = 0;  // its own thread's
    std::atomic<std::uint64_t> ended{0};
    std::atomic<bool> aborted{false};
  };
  /// What a rank brings to a group.
  struct Brought {
    std::shared_ptr<Bytes const> bytes;
    Calls calls;
    std::vector<std::byte const*> inputs;  // in `bytes`
  };
  using Numbers = std::map<std::pair<int, int>, std::uint64_t>;  // by sender and receiver
  [[nodiscard]] static Brought unpack(std::shared_ptr<Bytes const> bytes);
  [[nodiscard]] bool is_aborted(int rank) const { return ranks_[static_cast<std::size_t>(rank)].aborted; }
  void wait_for_abort(int rank);
  [[nodiscard]] std::string next_message(Numbers& numbers, int from, int to);
  static void work(int rank, std::vector<Brought> const& all, Calls const& calls);

  std::string id_, name_;
  std::unique_ptr<Board> board_;
  std::vector<Rank> ranks_;
  std::mutex mutex_;
  Numbers sent_, received_;
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
  /// The communicator of `world` ranks that is known to all of them as `id`.
  [[nodiscard]] std::shared_ptr<Clique> clique(std::string const& id, std::string const& name, int world);

  std::filesystem::path folder;  // where ranks that are processes meet; empty: they are threads
  std::map<std::string, std::shared_ptr<Clique>> by_id;
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
  std::atomic<int> more_questions{0};
  bool finalize_stalls = false;
  std::atomic<bool> abort_stalls{false}, destroy_stalls{false};
  bool windows_stall = false;
  bool gives_windows = true;
  std::atomic<bool> was_there{false};
  std::atomic<int> version{NCCL_VERSION_CODE};
  std::set<ncclComm_t> alive;
  std::set<ncclWindow_t> windows;
};

/// The current one of the calling thread.
inline int gpu_of_thread() noexcept {
  int gpu = -1;
  static_cast<void>(cudaGetDevice(&gpu));
  return gpu;
}

}  // namespace zeroth::testing::fake_nccl

/// NCCL leaves this type open.
struct ncclComm {
  std::shared_ptr<zeroth::testing::fake_nccl::Clique> clique;
  char const* name = nullptr;  // the caller's, who keeps it
  int rank = 0;
  int gpu = zeroth::testing::fake_nccl::gpu_of_thread();
  ncclResult_t error = ncclSuccess;
  bool stalled = false;  // never comes to be
  int asked = 0;         // it is under way for a while, as the real one is
  /// Where the caller has it; written again when it has come to be, or is given up.
  ncclComm_t* born = nullptr;
  /// What this rank has said of its first calls, and what others have to say before its last call is through.
  std::set<std::string> met;
  std::vector<std::string> awaited;
  std::uint64_t splits = 0;
  /// A split that this rank takes part in.
  struct Splitting {
    std::uint64_t number;
    int color;
    ncclComm_t* result;
    char const* name;
    int policy;
  };
  std::optional<Splitting> splitting;
  /// A window that is being made, and where the caller will find it.
  std::optional<std::pair<ncclWindow_t, ncclWindow_t*>> registering;

  [[nodiscard]] bool is_ready() const noexcept { return asked == 0 && !splitting; }
};

struct ncclWindow_vidmem {
  ncclComm_t communicator;
  std::uintptr_t first;
  std::size_t bytes;
};
