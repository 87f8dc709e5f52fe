// SPDX-License-Identifier: Apache-2.0
/// The state of the NCCL for tests.
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
  double factor = 1;  ///< For premul_sum.

  [[nodiscard]] bool matches(Call const& other) const noexcept {
    return kind == other.kind && count == other.count && dtype == other.dtype && peer == other.peer &&
           reduce == other.reduce && factor == other.factor;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return count * static_cast<std::size_t>(bytes_of(dtype)); }
};
using Calls = std::vector<Call>;

/// All ranks of one communicator. The threads of their streams meet in it.
class Clique {
 public:
  Clique(std::string id, std::string name, int world, std::unique_ptr<Board> board);
  [[nodiscard]] int world() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] std::string const& id() const noexcept { return id_; }
  [[nodiscard]] std::string const& name() const noexcept { return name_; }

  /// complete() is true once each rank has called join().
  void join(int rank);
  [[nodiscard]] bool complete() const;

  /// Runs group number `number` of `rank`. Returns when all ranks have reached it and this one has received its data,
  /// or when `rank` is aborted.
  void run(int rank, std::uint64_t number, Calls const& calls, bool stalls);
  void exchange(int rank, Calls const& calls);
  /// Ends this and every later wait of `rank`.
  void abort(int rank);
  /// Runs `work`, the group that `rank` issued as number `turn`, after the earlier ones: a communicator's groups run
  /// one after another, on any streams.
  void in_turn(int rank, std::uint64_t turn, std::function<void()> const& work);
  [[nodiscard]] std::uint64_t next_turn(int rank) { return ranks_[static_cast<std::size_t>(rank)].issued++; }
  /// Numbers groups of collectives in the order of issue.
  [[nodiscard]] std::uint64_t next_number(int rank) { return ranks_[static_cast<std::size_t>(rank)].next++; }

  /// Ranks post points when they reach calls that connect them; have_met() checks the posts of others.
  void meet(std::string const& point) { board_->post(point, {}); }
  [[nodiscard]] bool have_met(std::vector<std::string> const& points) const;

  /// A rank's arguments of split number `number`.
  struct Wish {
    int color, key;
  };
  void wish(int rank, std::uint64_t number, Wish const& wish);
  /// [world]; empty until all ranks have posted theirs.
  [[nodiscard]] std::vector<Wish> wishes(std::uint64_t number) const;

 private:
  struct Rank {
    std::uint64_t next = 0, issued = 0;  // used by its own thread
    std::atomic<std::uint64_t> ended{0};
    std::atomic<bool> aborted{false};
  };
  /// A rank's contribution to a group.
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

/// The requests of tests, and counters.
class World {
 public:
  static World& get();
  /// Counts a call, and returns its error if it must fail.
  [[nodiscard]] ncclResult_t enter(char const* function);

  std::mutex mutex;
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, std::pair<int, ncclResult_t>> refusals;
  /// The communicator of `world` ranks that all of them know as `id`.
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

/// The current GPU of the calling thread.
inline int gpu_of_thread() noexcept {
  int gpu = -1;
  static_cast<void>(cudaGetDevice(&gpu));
  return gpu;
}

}  // namespace zeroth::testing::fake_nccl

/// NCCL does not define this type.
struct ncclComm {
  std::shared_ptr<zeroth::testing::fake_nccl::Clique> clique;
  char const* name = nullptr;  // the caller's memory
  int rank = 0;
  int gpu = zeroth::testing::fake_nccl::gpu_of_thread();
  ncclResult_t error = ncclSuccess;
  bool stalled = false;  // it is never completed
  int asked = 0;         // remaining polls until it is complete, like the real one
  /// The caller's handle; written again at completion, or when it is abandoned.
  ncclComm_t* born = nullptr;
  /// Points of first calls that this rank has posted, and those that others must post before its last call completes.
  std::set<std::string> met;
  std::vector<std::string> awaited;
  std::uint64_t splits = 0;
  /// Factors of ncclRedOpCreatePreMulSum's operators, by their number; nullopt once they are destroyed.
  std::vector<std::optional<double>> factors;
  /// A split that this rank takes part in.
  struct Splitting {
    std::uint64_t number;
    int color;
    ncclComm_t* result;
    char const* name;
    int policy;
  };
  std::optional<Splitting> splitting;
  /// A window in progress, and where to write its handle.
  std::optional<std::pair<ncclWindow_t, ncclWindow_t*>> registering;

  [[nodiscard]] bool is_ready() const noexcept { return asked == 0 && !splitting; }
};

struct ncclWindow_vidmem {
  ncclComm_t communicator;
  std::uintptr_t first;
  std::size_t bytes;
};
