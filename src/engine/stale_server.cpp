// SPDX-License-Identifier: Apache-2.0
#include "engine/stale_server.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "engine/engine_state.hpp"
#include "engine/server.hpp"
#include "engine/server_calls.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

using detail::EngineState;
using shard::Order;

/// Each worker has a stream, on which its next order is awaited. One thread does all the rest, in the order in which
/// orders arrive.
class StaleServer {
 public:
  explicit StaleServer(EngineState& engine)
      : engine_{engine}, manager_{*engine.sharded.manager}, links_{engine.runtime.servers->links()} {
    auto* data = manager_.memory.pushed();
    channels_.resize(static_cast<std::size_t>(links_.workers()));
    awaited_.reserve(channels_.size());
    arrivals_.reserve(channels_.size());
    for (auto& channel : channels_) {
      channel.stream = engine.runtime.device->make_stream("worker", device::Overlap::on);
      channel.arrived = engine.runtime.device->make_event();
      for (auto const& unit : manager_.memory.layout().flats()) {
        channel.gradients.push_back(data);
        data += unit.gradients().shard_count * bytes_of(dtype());
      }
    }
  }

  void run() {
    for (int worker = 0; worker < links_.workers(); ++worker) {
      await_order(worker);
    }
    int worker = 0;  // the search starts after the last one served, so that none is always first
    while (std::ranges::any_of(channels_, [](Channel const& each) { return !each.ended; })) {
      auto const next = next_after(worker);
      if (!next) {
        rest();
        continue;
      }
      worker = *next;
      of(worker).arrived->synchronize();  // throws its error
      carry_out(worker);
      for (int each = 0; each < links_.workers(); ++each) {
        if (of(each).waits && is_near(each)) {
          answer_push(each);
        }
      }
    }
  }

 private:
  struct Channel {
    ById<shard::FlatId, std::byte*> gradients = {};  ///< This server's slices.
    Order order = {};
    optim::StepSums sums = {};
    std::int64_t pushes = 0;
    bool waits = false, ended = false;  ///< The worker waits for parameters; its engine has ended.
    std::unique_ptr<device::Event> arrived = {};
    std::unique_ptr<device::Stream> stream = {};  ///< Destroyed first: its work uses the others.
  };
  [[nodiscard]] Channel& of(int worker) noexcept { return channels_[static_cast<std::size_t>(worker)]; }
  [[nodiscard]] Dtype dtype() const noexcept { return engine_.settings().precision.reduce; }

  void await_order(int worker) {
    auto& channel = of(worker);
    links_.receive_order(worker, *channel.stream, channel.order);
    channel.stream->record(*channel.arrived);
  }

  /// A worker whose order has arrived. One that waits for parameters sends none before it has them.
  std::optional<int> next_after(int worker) {
    awaited_.clear();
    arrivals_.clear();
    for (int i = 1; i <= links_.workers(); ++i) {
      int const each = (worker + i) % links_.workers();
      if (auto const& channel = of(each); !channel.ended && !channel.waits) {
        awaited_.push_back(each);
        arrivals_.push_back(channel.arrived.get());
      }
    }
    auto const found = engine_.runtime.device->first_done(arrivals_);
    return found ? std::optional{awaited_[*found]} : std::nullopt;
  }

  void carry_out(int worker) {
    auto& channel = of(worker);
    switch (channel.order.kind) {
      case Order::Kind::add: {
        auto const flat = id_at<shard::FlatId>(static_cast<std::size_t>(channel.order.first));
        auto const& unit = manager_.memory.flat(flat);
        links_.take(worker, *channel.stream, unit.name, unit.gradients(), channel.gradients[flat], dtype());
        break;
      }
      case Order::Kind::step: push(worker); break;
      case Order::Kind::end: channel.ended = true; return;
      default: {
        std::string more(static_cast<std::size_t>(channel.order.bytes), '\0');
        if (!more.empty()) {
          links_.receive_more_of(worker, *channel.stream, std::as_writable_bytes(std::span{more}));
          channel.stream->synchronize();
        }
        answer(engine_, channel.order, more);
      }
    }
    await_order(worker);
  }

  /// Updates by a worker's gradients, which have arrived.
  void push(int worker) {
    auto& channel = of(worker);
    links_.receive_more_of(worker, *channel.stream, std::as_writable_bytes(std::span{&channel.sums, 1}));
    channel.stream->synchronize();
    auto& memory = manager_.memory;
    auto& optimizer = manager_.optimizer;
    for (auto const flat : memory.layout().update_order()) {
      auto const at = memory.addresses(flat);
      memory.kernels().reduce_epilogue(*engine_.runtime.reduce_stream, {.source = channel.gradients[flat],
                                                                        .source_dtype = dtype(),
                                                                        .destination = at.reduced,
                                                                        .destination_dtype = at.reduced_dtype,
                                                                        .count = memory.summed(flat).count()});
    }
    optimizer.decide_by(channel.sums, rules_for(engine_, options_of(channel.order)),
                        std::exchange(parity_, 1 - parity_));
    optimizer.await_decision();
    optimizer.begin_updates(false);
    std::ranges::for_each(memory.layout().update_order(), [&](shard::FlatId flat) { optimizer.update(flat); });
    engine_.runtime.device->compute().synchronize();  // the next push overwrites what the update reads
    ++channel.pushes;
    channel.waits = true;
    if (stop_at_ == 0 && (channel.sums.stop > 0 || engine_.runtime.job->stop_requested())) {
      // A worker may have its parameters up to the push that arrived last.
      stop_at_ = 1 + std::ranges::max_element(channels_, {}, &Channel::pushes)->pushes;
    }
  }

  [[nodiscard]] std::int64_t pushed_by_all() const {
    return std::ranges::min_element(channels_, {}, &Channel::pushes)->pushes;
  }
  /// Whether `worker` may begin its next step.
  [[nodiscard]] bool is_near(int worker) {
    return of(worker).pushes - pushed_by_all() <= engine_.settings().parameter_server.staleness;
  }

  void answer_push(int worker) {
    auto& memory = manager_.memory;
    auto& stream = *engine_.runtime.gather_stream;
    // Only one server tells workers when to stop, so that all stop after the same step.
    bool const says_when = engine_.runtime.exchange().rank() == 0;
    note_ = {pushed_by_all(), says_when ? stop_at_ : 0};
    links_.give_note(worker, stream, note_);
    for (auto const flat : memory.layout().update_order()) {
      links_.give_to(worker, stream, memory.flat(flat).name, memory.flat(flat).trainable,
                     memory.addresses(flat).parameters, engine_.settings().precision.compute);
    }
    stream.synchronize();  // before the next update
    of(worker).waits = false;
  }

  void rest() {
    if (auto const failure = engine_.runtime.everyone().communicator->failure()) {
      throw PeerError{*failure};
    }
    std::this_thread::sleep_for(std::chrono::microseconds{50});
  }

  EngineState& engine_;
  shard::ShardManager& manager_;
  shard::ServerLinks& links_;
  std::vector<Channel> channels_;
  std::vector<int> awaited_;  // workers, with what marks their next order
  std::vector<device::Event const*> arrivals_;
  shard::PullNote note_;
  std::int64_t stop_at_ = 0;
  std::size_t parity_ = 0;
};

}  // namespace

void serve_stale_workers(EngineState& engine) { StaleServer{engine}.run(); }

}  // namespace zeroth::engine
