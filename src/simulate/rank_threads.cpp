// SPDX-License-Identifier: Apache-2.0
#include "simulate/rank_threads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "comm/rank_error.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::simulate {
namespace {

/// The error that ended the ranks. An engine that is unwound aborts its peers before its own error arrives here, so the
/// first error need not be the cause.
class Cause {
 public:
  void add(std::exception_ptr error, bool of_peer) {
    std::lock_guard const lock{mutex_};
    auto& kept = of_peer ? told_ : error_;
    if (!kept) {
      kept = std::move(error);
    }
  }
  void rethrow_if_any() const {
    std::lock_guard const lock{mutex_};
    if (auto const& error = error_ ? error_ : told_) {
      std::rethrow_exception(error);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_, told_;
};

}  // namespace

void run_rank_threads(std::size_t ranks, std::function<void(std::size_t rank)> const& run,
                      std::function<void(std::string const& reason)> const& abort) {
  Cause cause;
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  try {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          run(rank);
        } catch (...) {
          auto const error = comm::describe_current_exception();
          cause.add(std::current_exception(), error.is_peer_error);
          abort(fmt::format("simulated rank {} failed: {}", rank, error.bare));
        }
      });
    }
  } catch (std::system_error const& error) {  // running ranks would wait for those that did not start
    SystemError const refused{fmt::format("cannot start a thread for simulated rank {} of {}: {}", threads.size(),
                                          ranks, error.code().message())};
    cause.add(std::make_exception_ptr(refused), false);
    abort(refused.what());
  }
  std::ranges::for_each(threads, [](std::thread& thread) { thread.join(); });
  cause.rethrow_if_any();
}

}  // namespace zeroth::simulate
