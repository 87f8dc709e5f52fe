// SPDX-License-Identifier: Apache-2.0
/// The parts of every engine, connected, and the operations that need several of them.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/runtime.hpp"
#include "engine/session.hpp"
#include "engine/sharded_model.hpp"
#include "engine/start.hpp"

namespace zeroth::engine {
/// Whether a call may be part of a step that a StepGraph records.
enum class Recorded : bool { no, yes };
}  // namespace zeroth::engine

namespace zeroth::detail {

/// The state that AnyEngine, its passes and its guards work on: runtime, sharded model and session. A function takes
/// the one of the three that it needs.
class EngineState {
 public:
  EngineState(Job& job, Model const& model, Config const& config);
  EngineState(Mesh& mesh, Model const& model, Config const& config);
  EngineState(EngineState const&) = delete;
  EngineState& operator=(EngineState const&) = delete;
  ~EngineState();

  /// Throws ContractError if this rank is a parameter server, which serves and does nothing else, or if `call` cannot
  /// be recorded and a StepGraph records.
  [[nodiscard]] EngineState& of_worker(char const* call, engine::Recorded recorded = engine::Recorded::no);
  [[nodiscard]] Settings const& settings() const noexcept { return sharded.settings(); }
  [[nodiscard]] engine::EngineCounters counters() const;
  /// Stops all communication. Every later call rethrows `error`.
  void fail(std::exception_ptr error) noexcept;
  /// Runs `action`. If it throws, the engine has failed.
  template <class F>
  decltype(auto) or_end(F const& action) {
    try {
      return action();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }
  /// A barrier. If only some ranks call it, their next collectives mismatch, and all ranks get the error.
  void meet(std::string_view purpose);
  /// Applies the pending update of zeroth.delayed_update, ordered before later work of compute. Collective.
  void settle_update();
  /// Compares replicas; waits. Call when nothing else is enqueued.
  void compare_replicas(shard::States states, std::string const& after);
  /// Compares tied parameters between stages; collective on all stages that have them.
  void compare_ties(shard::States states, std::string const& after) {
    sharded.compare_ties(states, after, runtime.exchange());
  }
  /// Whether the step that comes next compares gradients between tensor ranks: with zeroth.check, in the first two
  /// steps and every 100th.
  [[nodiscard]] bool compares_tensor_gradients() const noexcept;
  /// Call when the number of steps has changed: addends of partial gradients are recorded for that comparison alone.
  void record_addends() noexcept { sharded.manager->gradients.addends().record(compares_tensor_gradients()); }
  /// Adds `turn`, which begins, to the call log. Backward turns of units that stay open are not compared between ranks:
  /// they move nothing, and may begin at any time after forward.
  void record(stage::Turn const& turn);
  /// Runs the turns of skipped units before `position`: joins the collectives that other ranks issue in them.
  void settle_skips(std::int64_t position);
  /// The log of this step's calls, after the hash of all transactions so far was stored in it.
  engine::CallLog& noted_call_log();
  /// `total` is a sum over `ranks` ranks that includes `mine`. Throws PeerError if ranks differ.
  void check_call_logs(optim::StepSums const& total, engine::CallLog const& mine, std::int64_t step, int ranks);
  /// The step's action number `index`, from 0.
  [[nodiscard]] stage::Action action_at(std::int64_t index) const noexcept;
  /// Number of actions in a step.
  [[nodiscard]] std::int64_t actions_in_step() const noexcept;
  /// See AnyEngine.
  [[nodiscard]] int in_flight() const noexcept;
  [[nodiscard]] MemoryBytes planned() const noexcept;

  engine::Runtime runtime;  ///< Destroyed last: the sharded model uses its memory, and the session its streams.
  engine::ShardedModel sharded;
  engine::Session session;

 private:
  EngineState(Job& job, Mesh* mesh, Model const& model, Config const& config);
  void set_up(Mesh* mesh, Model const& model, Config const& config);
  void join_mesh(Mesh& mesh, Model const& given, Config const& config, engine::Start& start);
  void join_servers(engine::Start& start);
  void tell_user(Config const& config, std::string const& of_start) const;

  int exceptions_at_start_;
};

}  // namespace zeroth::detail
