// SPDX-License-Identifier: Apache-2.0
#include "support/fake_cuda/graph.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

std::size_t CUgraph_st::add(CUgraphNode_st node) {
  nodes.push_back(std::move(node));
  return nodes.size() - 1;
}

std::vector<std::pair<std::size_t, std::size_t>> CUgraph_st::edges(bool with_lines) const {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t to = 0; to < nodes.size(); ++to) {
    auto from = nodes[to].after;
    if (with_lines && nodes[to].previous) {
      from.insert(*nodes[to].previous);
    }
    for (auto const each : from) {
      all.emplace_back(each, to);
    }
  }
  return all;
}

std::vector<bool> CUgraph_st::reaching(std::set<std::size_t> const& last, bool with_lines) const {
  std::vector<bool> reach(nodes.size());
  for (auto const each : last) {
    reach[each] = true;
  }
  for (auto at = nodes.size(); at-- > 0;) {  // a node depends on earlier ones
    if (reach[at]) {
      for (auto const each : nodes[at].after) {
        reach[each] = true;
      }
      if (with_lines && nodes[at].previous) {
        reach[*nodes[at].previous] = true;
      }
    }
  }
  return reach;
}

namespace zeroth::testing::fake_cuda {

/// One launch of an executable graph, on worker threads.
class Launch {
 public:
  Launch(Executable const& graph, std::vector<std::function<void()>> work, unsigned seed)
      : graph_{graph}, work_{std::move(work)}, random_{seed}, unstarted_{work_.size()} {
    for (std::size_t at = 0; at < work_.size(); ++at) {
      missing_.push_back(graph.steps_[at].after);
      if (missing_.back() == 0) {
        ready_.push_back(at);
      }
    }
  }

  void run() {
    std::vector<std::jthread> workers;
    for (std::size_t i = 1; i < graph_.workers_; ++i) {
      workers.emplace_back([this] { help(); });
    }
    help();
  }

 private:
  /// Runs steps that are ready, in random order, until all have been started.
  void help() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return unstarted_ == 0 || !ready_.empty(); });
      if (unstarted_ == 0) {
        return;
      }
      auto const chosen = random_() % ready_.size();
      auto const at = std::exchange(ready_[chosen], ready_.back());
      ready_.pop_back();
      --unstarted_;
      auto const pause = pause_before(at);
      if (graph_.late_ && graph_.late_->first == at) {
        complete_one_before(graph_.late_->second);
      }
      lock.unlock();
      changed_.notify_all();
      std::this_thread::sleep_for(pause);
      work_[at]();
      lock.lock();
      for (auto const next : graph_.steps_[at].next) {
        complete_one_before(next);
      }
      changed_.notify_all();
    }
  }

  void complete_one_before(std::size_t at) {
    if (--missing_[at] == 0) {
      ready_.push_back(at);
    }
  }

  /// A delay like those of streams, or the time in which a step that waits for other ranks reads its inputs.
  [[nodiscard]] std::chrono::microseconds pause_before(std::size_t at) {
    if (graph_.late_ && graph_.late_->second == at) {
      return std::chrono::milliseconds{2};
    }
    bool const delayed = graph_.delays_ != 0 && random_() % 8 == 0;
    return std::chrono::microseconds{delayed ? random_() % 400 : 0};
  }

  Executable const& graph_;
  std::vector<std::function<void()>> const work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 random_;
  std::vector<std::size_t> ready_, missing_;
  std::size_t unstarted_;
};

Executable::Executable(CUgraph_st const& graph, std::optional<std::size_t> dropped, unsigned seed, unsigned delays)
    : workers_{graph.streams}, seed_{seed}, delays_{delays} {
  auto own = graph;
  for (auto const& node : own.nodes) {
    steps_.push_back({node.prepare, {}, 0});
  }
  if (dropped) {
    drop(own, *dropped);
  }
  for (auto const& [from, to] : own.edges(true)) {
    steps_[from].next.push_back(to);
    ++steps_[to].after;
  }
}

/// Whatever can go wrong without the edge does: the step that should be first comes second.
void Executable::drop(CUgraph_st& graph, std::size_t number) {
  auto const [from, to] = graph.edges(false)[number];
  graph.nodes[to].after.erase(from);
  ++workers_;  // one more step may be ready at a time
  redundant_ = graph.reaching({to}, true)[from];
  if (redundant_) {
    return;
  }
  ++steps_[from].after;
  if (graph.nodes[to].in_line) {
    late_ = {to, from};
  } else {
    steps_[to].next.push_back(from);
  }
}

std::function<void()> Executable::prepare(std::shared_ptr<Executable> const& executable) {
  std::vector<std::function<void()>> work;
  for (auto const& step : executable->steps_) {
    work.push_back(step.prepare());
  }
  std::uint64_t number = 0;
  {
    std::lock_guard const lock{executable->launched_->mutex};
    number = executable->launched_->record();
  }
  auto const seed = executable->seed_ + ++executable->launches_;
  return [executable, work = std::move(work), number, seed] {
    executable->launched_->wait_for(number - 1);
    if (!work.empty()) {
      Launch{*executable, work, seed}.run();
    }
    executable->launched_->pass(number, std::chrono::steady_clock::now());
  };
}

}  // namespace zeroth::testing::fake_cuda
