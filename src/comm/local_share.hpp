/// What one rank does of a collective among threads: its share of the work, directly in everybody's memory.
#pragma once
#include <span>
#include <vector>

#include "zeroth/comm/communicator.hpp"

namespace zeroth::comm {

/// The shares of all ranks together are the collective. No two write the same memory, and none writes what another one
/// reads, so they run at the same time.
class LocalShare {
 public:
  LocalShare(int rank, int world);
  /// `all[r]` is the collective as rank r submitted it: same operation, count, dtype and root everywhere.
  void run(std::span<Collective const* const> all);

 private:
  void reduce(std::span<Collective const* const> all);
  void gather_blocks(std::span<Collective const* const> all);
  void exchange_blocks(std::span<Collective const* const> all);
  void broadcast(std::span<Collective const* const> all);

  int rank_, world_;
  std::vector<void const*> inputs_;  // scratch of one call
  std::vector<void*> outputs_;
};

}  // namespace zeroth::comm
