// SPDX-License-Identifier: Apache-2.0
/// A store of keys and values that all ranks of a job share.
#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "zeroth/core/export.hpp"

namespace zeroth {

namespace comm {
class KeyValues;
}

/// Keys and values that all ranks of launch() share, like torch.distributed's Store. For addresses, progress, names and
/// counters, from one rank to others that need not call at the same time; for arrays there are collectives.
///
///   auto store = job.key_value_store();
///   if (job.rank() == 0) {
///     store.set("port", "8080");
///   }
///   auto const port = store.get("port", std::chrono::seconds{30});  // on every rank, as soon as rank 0 has set it
///
/// Keys have 1 to 200 bytes and values up to 4000, any bytes; together they may take 64 MiB. The library's own keys are
/// kept apart. Parts of a job share the store of launch().
///
/// Threads: any thread may call any function. Order: what one rank does happens in its order, and a rank that has read
/// a value sees everything that the writer did before. Errors: ContractError for keys and values of a wrong size, and
/// if the store is full. PeerError once the job has failed, or if rank 0, which keeps the store, has ended. Cost: a
/// message to rank 0 and one back; a lock if ranks are threads.
class ZEROTH_EXPORT KeyValueStore {
 public:
  /// The store behind `values`, which must outlive this. Programs call Job::key_value_store().
  explicit KeyValueStore(comm::KeyValues& values) noexcept : values_{&values} {}

  /// Sets a key, or replaces its value.
  void set(std::string_view key, std::string_view value);
  /// Waits until the key has been set, and returns its value. Throws PeerError that names the key if that takes longer
  /// than `timeout`; the job continues.
  [[nodiscard]] std::string get(std::string_view key, std::chrono::milliseconds timeout);
  /// Waits until all `keys` have been set. `timeout` is for all of them together. Throws as get(), naming all keys that
  /// are not set.
  void wait(std::span<std::string const> keys, std::chrono::milliseconds timeout);
  /// Whether the key is set now. Never waits for other ranks to set it.
  [[nodiscard]] bool check(std::string_view key);
  /// Adds `amount` to the key's value, a decimal integer, and returns the sum, which wraps around. A key that is not
  /// set counts as 0. Throws ContractError if the value is something else.
  std::int64_t add(std::string_view key, std::int64_t amount);
  /// Sets the key to `desired` if its value is `expected`, and returns the value after that. A key that is not set
  /// counts as empty.
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  /// Removes the key, and returns whether it was set.
  bool remove(std::string_view key);

 private:
  comm::KeyValues* values_;
};

}  // namespace zeroth
