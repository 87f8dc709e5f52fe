// SPDX-License-Identifier: Apache-2.0
#include "engine/sharded_model.hpp"

#include "comm/launch/job_state.hpp"
#include "engine/replicas.hpp"
#include "engine/server_plan.hpp"

namespace zeroth::engine {

ShardedModel::ShardedModel(Runtime& runtime, Model const& whole, Config const& config)
    : model{std::make_unique<model::Description>(runtime.share.take_part())},
      blueprint{make_blueprint(*model, whole.description(), config, runtime.workers(),
                               {.transport = runtime.job->communicator->transport(), .device = runtime.kind()})} {
  if (runtime.servers) {
    blueprint = with_servers(std::move(blueprint), *model, runtime.serves());
  }
}

void ShardedModel::allocate(Runtime const& runtime) {
  if (settings().reports.comms.enabled && runtime.speaks()) {
    calls = std::make_unique<shard::CallLog>();
  }
  shard::ManagerContext const context{.device = runtime.device.get(),
                                      .gather_stream = runtime.gather_stream.get(),
                                      .reduce_stream = runtime.reduce_stream.get(),
                                      .gather = runtime.communicators->gather(),
                                      .reduce = runtime.communicators->reduce(),
                                      .model = model.get(),
                                      .layout = &blueprint.layout,
                                      .stages = runtime.stages.get(),
                                      .deciders = runtime.servers ? &runtime.servers->deciders() : nullptr,
                                      .servers = runtime.servers ? &runtime.servers->links() : nullptr,
                                      .tensor = runtime.tensor.get(),
                                      .ties = runtime.ties.of(blueprint.layout),
                                      .calls = calls.get(),
                                      .registers_memory = settings().register_memory};
  manager = std::make_unique<shard::ShardManager>(context, blueprint.request,
                                                  optim::initial_state(settings().rules.loss_scale));
  schedule = std::make_unique<stage::Schedule>(blueprint.layout, settings(), blueprint.limits, *manager);
}

void ShardedModel::compare_replicas(shard::States states, std::string const& after, Exchange const& exchange) {
  if (exchange.device->holds_values()) {
    manager->parameters.await_gathers();
    engine::compare_replicas(*manager, blueprint.layout, states, after, exchange);
  }
}

void ShardedModel::compare_ties(shard::States states, std::string const& after, Exchange const& exchange) {
  if (exchange.device->holds_values()) {
    engine::compare_ties(*manager, states, after, exchange);
  }
}

std::int64_t ShardedModel::offloaded_bytes(shard::Tier tier) const {
  std::int64_t bytes = 0;
  for (auto const* const states : manager->memory.offloaded()) {
    bytes += states->tier() == tier ? states->bytes_taken() : 0;
  }
  return bytes;
}

}  // namespace zeroth::engine
