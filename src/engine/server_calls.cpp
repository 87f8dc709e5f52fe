// SPDX-License-Identifier: Apache-2.0
#include "engine/server_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "engine/engine_state.hpp"
#include "engine/packed.hpp"
#include "engine/parameter_values.hpp"
#include "engine/restore.hpp"
#include "engine/tensor_ranks.hpp"
#include "engine/weight_files.hpp"
#include "shard/held_state.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::engine {
namespace {

using detail::EngineState;
using shard::Order;
using Kind = Order::Kind;

constexpr std::string_view asking = "servers";

/// Sends an order, followed by `more`. Waits until it was received.
void ask(EngineState& engine, Kind kind, std::int64_t first = 0, std::string_view more = {}) {
  auto& servers = *engine.runtime.servers;
  auto& stream = *engine.runtime.reduce_stream;
  stream.synchronize();
  servers.order = {kind, first, 0, std::ssize(more)};
  servers.links().tell(stream, servers.order, std::as_bytes(std::span{more}));
  stream.synchronize();
}

/// The results of all ranks: those of a server's work may take any time, since files may be slow.
std::vector<RankResult> results(EngineState& engine, RankResult const& mine) {
  auto const everyone = engine.runtime.everyone();
  everyone.communicator->set_options({.timeout = std::chrono::hours{24 * 365}, .check = true});
  auto all = gather_results(mine, asking, everyone);
  everyone.communicator->set_options({.timeout = engine.settings().timeout, .check = true});
  return all;
}

/// Runs a server's half of a call, and tells all ranks how it went.
template <class F>
RankResult run_on_server(EngineState& engine, F const& action) {
  auto mine = result_of(action);
  static_cast<void>(results(engine, mine));
  return mine;
}

/// Moves all parameters from servers to workers, once both have been told that servers have new ones. Waits.
void move_parameters(EngineState& engine) {
  auto& memory = engine.sharded.manager->memory;
  auto& links = engine.runtime.servers->links();
  auto& stream = *engine.runtime.gather_stream;
  auto const dtype = engine.settings().precision.compute;
  engine.sharded.manager->parameters.await_gathers();
  for (auto const flat : memory.layout().flats().ids()) {
    auto const& unit = memory.flat(flat);
    for (bool const trainable : {true, false}) {
      auto const& part = trainable ? unit.trainable : unit.frozen;
      if (part.padded_count == 0) {
        continue;
      }
      auto* const data = shard::held_of_parameters(memory, flat, trainable).data;
      engine.runtime.serves() ? links.give(stream, unit.name, part, data, dtype)
                              : links.pull(stream, unit.name, part, {data, 0, dtype});
    }
  }
  stream.synchronize();
}

void put_order(Packer& packer, std::optional<SampleOrder> const& order) {
  packer.put(order.has_value());
  if (order) {
    packer.put(order->size())
        .put(SampleOrderOptions{
            .seed = order->seed(), .shuffled = order->shuffled(), .fingerprint = order->fingerprint()});
  }
}

std::optional<SampleOrder> take_order(Unpacker& unpacker) {
  if (!unpacker.take<bool>()) {
    return std::nullopt;
  }
  auto const size = unpacker.take<std::int64_t>();
  return SampleOrder{size, unpacker.take<SampleOrderOptions>()};
}

// ---- a server's halves ----------------------------------------------------------------------------------------------

WholeModel whole_of_servers(EngineState& engine) {
  auto const& runtime = engine.runtime;
  return {*engine.sharded.manager, runtime.share, runtime.part, runtime.exchange(), runtime.whole()};
}

/// This rank's own result among those of all servers.
RankResult own(EngineState& engine, std::vector<RankResult> const& all) {
  return all[static_cast<std::size_t>(engine.runtime.exchange().rank())];
}

void answer_write(EngineState& engine, ParamId param, std::string_view more) {
  std::vector<float> values(more.size() / sizeof(float));
  std::memcpy(values.data(), more.data(), more.size());
  store_values(*engine.sharded.manager, param, values, *engine.runtime.device);
}

void answer_norm_of(EngineState& engine, ParamId param) {
  auto const& exchange = engine.runtime.exchange();
  static_cast<void>(sum_over_ranks(squares_of_slice(*engine.sharded.manager, param, exchange), engine.runtime.share,
                                   param, engine.runtime.everyone()));
}

void answer_load_weights(EngineState& engine, std::string_view file) {
  auto const mine = run_on_server(
      engine, [&](RankResult& result) { result = own(engine, load_weights(whole_of_servers(engine), file, {})); });
  if (!mine.failed()) {  // as on all servers
    move_parameters(engine);
  }
}

void answer_save(EngineState& engine, std::string_view more) {
  run_on_server(engine, [&](RankResult&) {
    auto& session = engine.session;
    Unpacker unpacker{more};
    session.protocol->end_restore(unpacker.take<std::int64_t>());
    session.samples = unpacker.take<std::int64_t>();
    auto const folder = unpacker.take_text();
    SaveOptions options;
    auto const keep = unpacker.take<std::int64_t>();
    options.keep = keep < 0 ? std::nullopt : std::optional{keep};
    options.keep_every = unpacker.take<std::int64_t>();
    options.keep_for = std::chrono::seconds{unpacker.take<std::int64_t>()};
    options.order = take_order(unpacker);
    auto const state = unpacker.take_text();
    options.program_state = std::as_bytes(std::span{state});
    if (!session.checkpoints) {
      session.checkpoints = std::make_unique<Checkpoints>(engine);
    }
    auto const number = session.checkpoints->save(folder, options);
    session.checkpoints->settle();
    session.checkpoints->rethrow(number);
  });
}

/// Packs all that a worker needs to continue.
std::string pack(EngineState& engine, std::optional<Restored> const& restored) {
  Packer packer;
  packer.put(restored.has_value());
  if (restored) {
    auto const& scalars = engine.sharded.manager->optimizer.results().initial.scalars;
    packer.put_text(restored->path.string()).put(restored->step).put(restored->samples);
    packer.put(restored->ranks).put(scalars.applied).put(scalars.loss_scale);
    packer.put_text({reinterpret_cast<char const*>(restored->program_state.data()), restored->program_state.size()});
  }
  return packer.text();
}

void answer_restore(EngineState& engine, Kind kind, std::string_view more) {
  Unpacker unpacker{more};
  auto const path = unpacker.take_text();
  RestoreOptions options;
  options.convert = unpacker.take<bool>();
  options.start_over_if_all_damaged = unpacker.take<bool>();
  options.of = unpacker.take<RestoreOf>();
  options.partial = unpacker.take<bool>();
  options.order = take_order(unpacker);
  std::optional<Restored> restored;
  auto const mine = run_on_server(engine, [&](RankResult& result) {
    restored = kind == Kind::restore ? restore(engine, path, options) : restore_latest(engine, path, options);
    if (engine.runtime.exchange().rank() == 0) {
      result = {.kind = RankResult::Kind::warning, .text = pack(engine, restored)};
    }
  });
  std::int64_t const changed = engine.session.protocol->is_restoring() ? 1 : 0;
  static_cast<void>(gather(std::span{&changed, 1}, asking, engine.runtime.everyone()));
  if (restored) {
    move_parameters(engine);
  }
}

// ---- the workers' halves --------------------------------------------------------------------------------------------

/// The options that servers can be told.
void check_options(RestoreOptions const& options) {
  ZEROTH_EXPECTS(
      !options.saved_name,
      "restore(): RestoreOptions::saved_name with parameter servers (zeroth.parameter_server.servers), which "
      "read the checkpoint and do not have the program's function; allowed: none");
}

std::string pack(std::filesystem::path const& path, RestoreOptions const& options) {
  Packer packer;
  packer.put_text(path.string()).put(options.convert).put(options.start_over_if_all_damaged);
  packer.put(options.of).put(options.partial);
  put_order(packer, options.order);
  return packer.text();
}

/// Takes over what servers have restored.
std::optional<Restored> take(EngineState& engine, std::string_view said, RestoreOptions const& options) {
  Unpacker unpacker{said};
  if (!unpacker.take<bool>()) {
    return std::nullopt;
  }
  Restored restored;
  restored.path = unpacker.take_text();
  restored.step = unpacker.take<std::int64_t>();
  restored.samples = unpacker.take<std::int64_t>();
  restored.ranks = unpacker.take<checkpoint::SavedRanks>();
  checkpoint::Position position;
  position.step = restored.step;
  position.samples = restored.samples;
  position.applied = unpacker.take<std::int64_t>();
  position.loss_scale = unpacker.take<optim::LossScaleState>();
  auto const state = unpacker.take_text();
  auto const bytes = std::as_bytes(std::span{state});
  restored.program_state.assign(bytes.begin(), bytes.end());
  move_parameters(engine);
  if (options.of == RestoreOf::everything) {
    take_position(engine, position);
  } else {
    engine.session.protocol->end_restore(engine.session.protocol->steps());
  }
  engine.compare_replicas(shard::States::without, "restore()");
  return restored;
}

std::optional<Restored> restore(EngineState& engine, Kind kind, std::filesystem::path const& path,
                                RestoreOptions const& options) {
  check_options(options);
  std::vector<std::int64_t> changed;
  auto const all = engine.or_end([&] {
    engine.meet("restore");
    engine.runtime.device->compute().synchronize();
    ask(engine, kind, 0, pack(path, options));
    auto of_all = results(engine, {});
    std::int64_t const none = 0;
    changed = gather(std::span{&none, 1}, asking, engine.runtime.everyone());
    return of_all;
  });
  if (failed(all) && std::ranges::max(changed) > 0) {
    engine.session.protocol->begin_restore();  // only another restore is legal now
  }
  throw_if_failed("on parameter servers", all);
  return engine.or_end(
      [&] { return take(engine, all[static_cast<std::size_t>(engine.runtime.workers())].text, options); });
}

}  // namespace

void order_norm(EngineState& engine) {
  if (engine.runtime.servers && !engine.runtime.servers->is_stale()) {
    ask(engine, Kind::norm, std::ssize(engine.session.metrics));
  }
}

void order_norm_of(EngineState& engine, ParamId param) {
  if (engine.runtime.servers) {
    ask(engine, Kind::norm_of, static_cast<std::int64_t>(index_of(param)));
  }
}

void order_read(EngineState& engine, ParamId param) {
  if (engine.runtime.servers) {
    ask(engine, Kind::read, static_cast<std::int64_t>(index_of(param)));
  }
}

void order_write(EngineState& engine, ParamId param, std::span<float const> values) {
  if (engine.runtime.servers) {
    ask(engine, Kind::write, static_cast<std::int64_t>(index_of(param)),
        {reinterpret_cast<char const*>(values.data()), values.size_bytes()});
  }
}

void swap_ema_on_servers(EngineState& engine) {
  ask(engine, Kind::swap_ema);
  move_parameters(engine);
}

std::vector<RankResult> save_weights_on_servers(EngineState& engine, std::filesystem::path const& file) {
  ask(engine, Kind::save_weights, 0, file.string());
  return results(engine, {});
}

std::vector<RankResult> load_weights_on_servers(EngineState& engine, std::filesystem::path const& file) {
  ask(engine, Kind::load_weights, 0, file.string());
  auto all = results(engine, {});
  if (!failed(all)) {
    move_parameters(engine);
  }
  return all;
}

void save_on_servers(EngineState& engine, std::filesystem::path const& folder, SaveOptions const& options) {
  Packer packer;
  packer.put(engine.session.protocol->steps()).put(engine.session.samples).put_text(folder.string());
  packer.put(options.keep.value_or(-1)).put(options.keep_every).put(std::int64_t{options.keep_for.count()});
  put_order(packer, options.order);
  packer.put_text({reinterpret_cast<char const*>(options.program_state.data()), options.program_state.size()});
  auto const all = engine.or_end([&] {
    engine.meet("save");
    ask(engine, Kind::save, 0, packer.text());
    return results(engine, {});
  });
  throw_if_failed("on parameter servers", all);
}

void claim_on_servers(EngineState& engine, std::filesystem::path const& folder) {
  auto const all = engine.or_end([&] {
    engine.meet("claim");
    ask(engine, Kind::claim, 0, folder.string());
    return results(engine, {});
  });
  throw_if_failed("on parameter servers", all);
}

Restored restore_on_servers(EngineState& engine, std::filesystem::path const& path, RestoreOptions const& options) {
  return *restore(engine, Kind::restore, path, options);
}

std::optional<Restored> restore_latest_on_servers(EngineState& engine, std::filesystem::path const& folder,
                                                  RestoreOptions const& options) {
  return restore(engine, Kind::restore_latest, folder, options);
}

void answer(EngineState& engine, Order const& order, std::string_view more) {
  auto& manager = *engine.sharded.manager;
  auto const param = static_cast<ParamId>(order.first);
  switch (order.kind) {
    case Kind::norm:
      manager.optimizer.set_metrics(static_cast<std::size_t>(order.first));
      static_cast<void>(manager.optimizer.sum_step({}, {}));
      break;
    case Kind::norm_of: answer_norm_of(engine, param); break;
    case Kind::read: read_values(manager, param, {}, engine.runtime); break;
    case Kind::write: answer_write(engine, param, more); break;
    case Kind::swap_ema:
      exchange_averages(manager);
      move_parameters(engine);
      break;
    case Kind::save_weights:
      run_on_server(engine, [&](RankResult& mine) {
        mine = own(engine, save_weights(whole_of_servers(engine), more, engine.settings().saved_weights));
      });
      break;
    case Kind::load_weights: answer_load_weights(engine, more); break;
    case Kind::save: answer_save(engine, more); break;
    case Kind::restore:
    case Kind::restore_latest: answer_restore(engine, order.kind, more); break;
    case Kind::claim: run_on_server(engine, [&](RankResult&) { claim(engine, more); }); break;
    default: break;
  }
}

}  // namespace zeroth::engine
