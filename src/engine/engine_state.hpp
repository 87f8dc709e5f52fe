// SPDX-License-Identifier: Apache-2.0
/// Behind every engine: its parts, wired, and what their users need together.
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

namespace zeroth::detail {

/// What AnyEngine, its passes and its guards work on: where it runs, what it holds, and how far it is. A function takes
/// the one of the three that it needs.
class EngineState {
 public:
  EngineState(Job& job, Model const& model, Config const& config);
  EngineState(Mesh& mesh, Model const& model, Config const& config);
  EngineState(EngineState const&) = delete;
  EngineState& operator=(EngineState const&) = delete;
  ~EngineState();

  [[nodiscard]] Settings const& settings() const noexcept { return sharded.settings(); }
  [[nodiscard]] engine::EngineCounters counters() const;
  /// Nothing is sent any more, and every later call throws `error` again.
  void fail(std::exception_ptr error) noexcept;
  /// Runs `action`; what it throws is the end of this engine.
  template <class F>
  decltype(auto) or_end(F const& action) {
    try {
      return action();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }
  /// A rank that comes here alone meets the others on the communicator that they use next, and all are told at once.
  void meet(std::string_view purpose);
  /// When nothing else is enqueued: waits.
  void compare_replicas(shard::States states, std::string const& after);
  /// The same of parameters that stages have together; collective on all of these.
  void compare_ties(shard::States states, std::string const& after) {
    sharded.compare_ties(states, after, runtime.exchange());
  }
  /// A turn begins: adds it to the call log. Backward turns of units that stay open are none of the calls that ranks
  /// compare: they move nothing, and may begin whenever forward is over.
  void record(stage::Turn const& turn);
  /// Takes the turns of skipped units that come before `position`: joins what the other ranks do in them.
  void settle_skips(std::int64_t position);
  /// The log of this step's calls. The hash of all transactions so far is stored in it first.
  engine::CallLog& noted_call_log();
  /// `total` is a sum over ranks that `mine` was part of. Throws PeerError where ranks differ.
  void check_call_logs(optim::StepSums const& total, engine::CallLog const& mine, std::int64_t step);
  /// The step's action number `index`, from 0.
  [[nodiscard]] stage::Action action_at(std::int64_t index) const noexcept;
  /// All of a step.
  [[nodiscard]] std::int64_t actions_in_step() const noexcept;
  /// See AnyEngine.
  [[nodiscard]] int in_flight() const noexcept;
  [[nodiscard]] MemoryBytes planned() const noexcept;

  engine::Runtime runtime;  ///< Ends last: what is sharded is in its memory, and the session's work on its streams.
  engine::ShardedModel sharded;
  engine::Session session;

 private:
  EngineState(Job& job, Mesh* mesh, Model const& model, Config const& config);
  void set_up(Mesh* mesh, Model const& model, Config const& config);
  void join_mesh(Mesh& mesh, Model const& given, Config const& config, engine::Start& start);
  void tell_user(Config const& config, std::string const& of_start) const;

  int exceptions_at_start_;
};

}  // namespace zeroth::detail
