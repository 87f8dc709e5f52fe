// SPDX-License-Identifier: Apache-2.0
/// How the processes of a job find each other, learn the location of every rank, and exchange the ids for their
/// connections.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "comm/store/presence.hpp"
#include "comm/store/store.hpp"

namespace zeroth::comm {

struct RendezvousOptions {
  StoreAddress at;
  int rank = 0;
  int world = 1;
  std::string device = {};   ///< See Presence; empty: no device to share.
  std::string problem = {};  ///< Why this rank cannot take part. It comes all the same, so that no rank waits for it.
  std::chrono::milliseconds join_timeout{300'000};      ///< For all ranks to arrive.
  std::chrono::milliseconds heartbeat_timeout{10'000};  ///< See StoreOptions.
  std::function<void(JobFailure const&)> on_failure = {};
  std::function<std::string(int rank)> groups_of = {};  ///< See StoreOptions.
};

/// The ranks of a job, after they have met. It lives as long as they communicate: its store reports the failure of any
/// rank.
///
///     Rendezvous rendezvous{{.at = find_store_address(variables, launched, program), .rank = launched.rank, ...}};
///     std::string const bytes = rendezvous.share("world", 0, [] {
///       ncclUniqueId fresh;
///       ncclGetUniqueId(&fresh);  // on rank 0 alone, and only when it will be used
///       return std::string{fresh.internal, sizeof fresh.internal};
///     }, timeout);
///     ncclUniqueId id;
///     std::memcpy(id.internal, bytes.data(), sizeof id.internal);
///
/// For a part of the ranks, do the same with a name of that part, "split 3 color 1", and its first rank as `root`.
///
/// Threads: one at a time; store() has the thread rules of Store.
class Rendezvous {
 public:
  /// Waits until all ranks have arrived. Throws as Store's constructor does; PeerError that names the missing ranks;
  /// ConfigError, on all ranks, if one of them cannot take part, or two would use one device.
  explicit Rendezvous(RendezvousOptions const& options);

  [[nodiscard]] Store& store() noexcept { return store_; }
  [[nodiscard]] Store const& store() const noexcept { return store_; }

  /// The keys and values of the job, which the store has for programs.
  [[nodiscard]] KeyValues& key_values() noexcept { return key_values_; }

  /// Returns what `make` returns on rank `root`, at most 4096 bytes, on every rank that calls this. Ranks that share a
  /// name must call it equally often: their n-th calls belong together. `root` does not wait.
  [[nodiscard]] std::string share(std::string const& name, int root, std::function<std::string()> const& make,
                                  std::chrono::milliseconds timeout);

 private:
  /// By the store.
  class StoredKeyValues final : public KeyValues {
   public:
    explicit StoredKeyValues(Store& store) : store_{store} {}
    [[nodiscard]] KeyValueAnswer call(KeyValueCall const& call) override { return store_.key_value(call); }

   private:
    Store& store_;
  };

  Store store_;
  StoredKeyValues key_values_{store_};
  std::map<std::string, int> uses_;
};

}  // namespace zeroth::comm
