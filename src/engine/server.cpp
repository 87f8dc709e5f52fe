// SPDX-License-Identifier: Apache-2.0
#include "engine/server.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "comm/launch/job_state.hpp"
#include "engine/engine_state.hpp"
#include "engine/server_calls.hpp"
#include "engine/stale_server.hpp"
#include "shard/server_reducers.hpp"

namespace zeroth::engine {
namespace {

using detail::EngineState;
using shard::Order;

class Server {
 public:
  explicit Server(EngineState& engine)
      : engine_{engine},
        manager_{*engine.sharded.manager},
        links_{engine.runtime.servers->links()},
        reducer_{shard::make_reducer_of_servers(manager_.memory)} {}

  void run() {
    for (;;) {
      auto const order = links_.next_order(*engine_.runtime.reduce_stream);
      switch (order.kind) {
        case Order::Kind::add:
          add(id_at<shard::FlatId>(static_cast<std::size_t>(order.first)), order.second != 0);
          break;
        case Order::Kind::step: step(order); break;
        case Order::Kind::end: return;
        default: answer(engine_, order, more_of(order));
      }
    }
  }

 private:
  std::string more_of(Order const& order) {
    std::string more(static_cast<std::size_t>(order.bytes), '\0');
    if (!more.empty()) {
      links_.receive_more(*engine_.runtime.reduce_stream, std::as_writable_bytes(std::span{more}));
    }
    return more;
  }

  void add(shard::FlatId flat, bool last) {
    shard::Unreduced const pushed{flat, manager_.memory.pushed(), engine_.settings().precision.reduce};
    device::SpanScope const span{*engine_.runtime.reduce_stream, "add", manager_.memory.flat(flat).name};
    reducer_->reduce({&pushed, 1}, last);
  }

  /// Decides with the workers, and updates this server's slices.
  void step(Order const& order) {
    auto& optimizer = manager_.optimizer;
    optim::StepSums mine{};
    mine.stop = engine_.runtime.job->stop_requested() ? 1 : 0;
    optimizer.set_metrics(static_cast<std::size_t>(order.first));
    optimizer.decide(mine, {}, rules_for(engine_, options_of(order)), parity_);
    parity_ = 1 - parity_;
    optimizer.await_decision();
    optimizer.begin_updates(false);
    manager_.parameters.await_gathers();  // workers have received what is overwritten now
    auto const& layout = manager_.memory.layout();
    for (auto const flat : layout.update_order()) {
      optimizer.update(flat);
      if (!layout.flats()[flat].persistent) {
        give(flat);
      }
    }
    // Schedule::update() of the workers receives persistent units last.
    for (auto const flat : layout.update_order()) {
      if (layout.flats()[flat].persistent) {
        give(flat);
      }
    }
  }

  void give(shard::FlatId flat) {
    auto& memory = manager_.memory;
    auto& stream = *engine_.runtime.gather_stream;
    stream.wait(memory.updated(flat));
    device::SpanScope const span{stream, "give", memory.flat(flat).name};
    links_.give(stream, memory.flat(flat).name, memory.flat(flat).trainable, memory.addresses(flat).parameters,
                engine_.settings().precision.compute);
  }

  EngineState& engine_;
  shard::ShardManager& manager_;
  shard::ServerLinks& links_;
  std::unique_ptr<shard::Reducer> reducer_;
  std::size_t parity_ = 0;
};

}  // namespace

optim::StepRules rules_for(EngineState const& engine, StepOptions const& options) {
  auto rules = engine.settings().rules;
  rules.gradient_prescale = engine.session.gradient_prescale;
  if (engine.settings().delayed_update) {  // otherwise the device has it, and the host need not wait
    rules.loss_scale_used = engine.sharded.manager->optimizer.loss_scale();
  }
  if (options.learning_rate) {
    rules.has_learning_rate = true;
    rules.given_learning_rate = *options.learning_rate;
  }
  return rules;
}

void serve(EngineState& engine) {
  if (engine.runtime.servers->is_stale()) {
    serve_stale_workers(engine);
  } else {
    Server{engine}.run();
  }
  engine.runtime.gather_stream->synchronize();
  engine.runtime.reduce_stream->synchronize();
  engine.session.finished = true;
}

namespace {

std::int64_t bits_of_rate(StepOptions const& options) {
  return options.learning_rate ? static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(*options.learning_rate))
                               : Order::no_rate;
}

}  // namespace

StepOptions options_of(Order const& step) {
  StepOptions options;
  if (step.second != Order::no_rate) {
    options.learning_rate = std::bit_cast<float>(static_cast<std::uint32_t>(step.second));
  }
  return options;
}

void order_step(EngineState& engine, StepOptions const& options) {
  if (auto* const servers = engine.runtime.servers.get(); servers != nullptr && !servers->is_stale()) {
    // The step before was decided after its order was sent, and its report has been taken.
    servers->order = {Order::Kind::step, std::ssize(engine.session.metrics), bits_of_rate(options)};
    servers->links().tell(*engine.runtime.reduce_stream, servers->order);
  }
}

void push_step(EngineState& engine, StepOptions const& options) {
  if (auto* const servers = engine.runtime.servers.get(); servers != nullptr && servers->is_stale()) {
    auto const& total = engine.sharded.manager->optimizer.total_on_device();
    servers->order = {Order::Kind::step, 0, bits_of_rate(options), sizeof total};
    servers->links().tell_of_own(*engine.runtime.reduce_stream, servers->order, std::as_bytes(std::span{&total, 1}));
    ++servers->pushes;
    servers->links().post_notes(servers->notes);
    auto const& memory = engine.sharded.manager->memory;
    for (auto const flat : memory.layout().update_order()) {  // on a CPU passes have ended when they return
      servers->links().post_pull(flat, memory.flat(flat).name, memory.flat(flat).trainable,
                                 {memory.addresses(flat).parameters, 0, engine.settings().precision.compute});
    }
    servers->links().await_notes(*engine.runtime.gather_stream);
  }
}

void add_staleness(EngineState& engine, StepReport& report) {
  auto const* const servers = engine.runtime.servers.get();
  if (servers == nullptr || !servers->is_stale()) {
    return;
  }
  engine.runtime.gather_stream->synchronize();  // the notes and the pull of that step
  report.stop = false;
  for (auto const& note : servers->notes) {
    report.staleness = std::max(report.staleness, static_cast<int>(servers->pushes - note.pushed_by_all));
    report.stop = report.stop || (note.stop_at > 0 && servers->pushes >= note.stop_at);
  }
}

void order_end(EngineState& engine) noexcept {
  static constexpr Order end{Order::Kind::end};
  try {
    engine.runtime.servers->links().tell_of_own(*engine.runtime.reduce_stream, end);
  } catch (...) {  // the job has failed: servers know
  }
}

}  // namespace zeroth::engine
