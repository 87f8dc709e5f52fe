// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_watch.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/counter.hpp"
#include "core/logger.hpp"
#include "core/start_thread.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

constexpr std::chrono::milliseconds poll_interval{5};
constexpr int polls_per_error_check = 10;  // NCCL's own state changes rarely, and a query takes its lock
constexpr std::chrono::seconds patience_at_the_end{10};

}  // namespace

struct NcclWatch::State {
  int rank = 0, world = 1, gpu = 0;
  std::mutex hooks_mutex;      // held while one is called
  std::optional<Hooks> hooks;  // none once the thread is abandoned
  mutable std::mutex mutex;
  std::vector<std::shared_ptr<NcclLink>> links;
  Counter ending, ended;
  std::thread thread;

  [[nodiscard]] std::vector<std::shared_ptr<NcclLink>> all() const {
    std::lock_guard const lock{mutex};
    return links;
  }
  void run();
  [[nodiscard]] std::optional<std::string> failure();
  void fail(std::string const& why);
  void look(NcclLink& link, bool asks_nccl);
  void end_all(std::string const& reason) const;
};

void NcclWatch::State::run() {
  this_rank() = {rank, world, fmt::format("cuda:{}", gpu)};
  ::pthread_setname_np(::pthread_self(), "nccl watch");
  static_cast<void>(cudaSetDevice(gpu));  // otherwise its queries would open GPU 0
  for (int round = 0; !ending.wait_until(1, Clock::now() + poll_interval); ++round) {
    if (auto const reason = failure()) {
      return end_all(*reason);
    }
    for (auto const& link : all()) {
      if (ending.value() != 0) {  // NCCL may have blocked this thread: objects that links refer to may be gone
        return;
      }
      look(*link, round % polls_per_error_check == 0);
    }
  }
}

std::optional<std::string> NcclWatch::State::failure() {
  std::lock_guard const lock{hooks_mutex};
  return hooks ? hooks->failure() : std::nullopt;
}

void NcclWatch::State::fail(std::string const& why) {
  std::lock_guard const lock{hooks_mutex};
  if (hooks) {
    hooks->fail(why);
  }
}

void NcclWatch::State::look(NcclLink& link, bool asks_nccl) {
  if (auto const late = link.pending.look(Clock::now())) {
    std::lock_guard const lock{hooks_mutex};
    if (hooks) {
      hooks->fail(hooks->explain(link, *late));
    }
    return;
  }
  auto const error = asks_nccl ? link.find_error() : std::string{};
  if (!error.empty()) {
    auto const first = link.pending.describe_first();
    fail(fmt::format("rank {}: {}{}{}", rank, error, first.empty() ? "" : ", in ", first));
  }
}

void NcclWatch::State::end_all(std::string const& reason) const {
  auto const every = all();
  for (auto const& link : every) {  // first, so that nothing more is enqueued after work that is about to end
    auto const first = link->pending.describe_first();
    link->pending.fail(std::make_exception_ptr(PeerError{
        first.empty() ? reason
                      : fmt::format("{}; rank {} was in {} of communicator '{}'", reason, rank, first, link->name())}));
  }
  // Concurrently: an abort in NCCL waits for the GPU, where work of one communicator may be queued after that of
  // another.
  std::vector<std::jthread> aborts;
  aborts.reserve(every.size());
  for (auto const& link : every) {
    auto const end = [this, &link] {
      this_rank() = {rank, world, fmt::format("cuda:{}", gpu)};
      link->abort();
      link->pending.abandon();
    };
    try {
      aborts.emplace_back(end);
    } catch (std::system_error const&) {  // no thread can be started
      end();
    }
  }
}

NcclWatch::NcclWatch(int rank, int world, int gpu, Hooks hooks) : state_{std::make_shared<State>()} {
  state_->rank = rank;
  state_->world = world;
  state_->gpu = gpu;
  state_->hooks = std::move(hooks);
  state_->thread = start_thread("the watch of NCCL", [state = state_] {
    try {
      state->run();
    } catch (std::exception const& error) {
      logger().error("the watch of NCCL ended: {}", error.what());
    }
    state->ended.add();
  });
}

NcclWatch::~NcclWatch() {
  state_->ending.add();
  if (state_->ended.wait_until(1, Clock::now() + patience_at_the_end)) {
    state_->thread.join();
  } else {
    logger().error("NCCL does not return from an abort; its thread is abandoned");
    std::lock_guard const lock{state_->hooks_mutex};
    state_->hooks.reset();
    state_->thread.detach();
  }
}

void NcclWatch::enter(std::shared_ptr<NcclLink> link) {
  std::lock_guard const lock{state_->mutex};
  state_->links.push_back(std::move(link));
}

void NcclWatch::leave(NcclLink const& link) {
  std::lock_guard const lock{state_->mutex};
  std::erase_if(state_->links, [&link](auto const& each) { return each.get() == &link; });
}

std::vector<std::shared_ptr<NcclLink>> NcclWatch::links() const { return state_->all(); }

}  // namespace zeroth::comm
