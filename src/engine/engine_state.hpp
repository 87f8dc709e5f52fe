// SPDX-License-Identifier: Apache-2.0
/// Behind every engine: its parts, wired, and what their users need together.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/channels.hpp"
#include "engine/checkpoints.hpp"
#include "engine/communicators.hpp"
#include "engine/entry.hpp"
#include "engine/exchange.hpp"
#include "engine/planning.hpp"
#include "engine/protocol.hpp"
#include "engine/replicas.hpp"
#include "engine/reporting.hpp"
#include "engine/room.hpp"
#include "engine/share.hpp"
#include "engine/step_book.hpp"
#include "shard/shard_manager.hpp"
#include "stage/schedule.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/comm/job.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/engine/mesh.hpp"

namespace zeroth::detail {

/// What AnyEngine, its passes and its guards work on: each of their verbs is written once, over these parts.
class EngineState {
 public:
  EngineState(Job& job, Model const& model, Config const& config);
  EngineState(Mesh& mesh, Model const& model, Config const& config);
  EngineState(EngineState const&) = delete;
  EngineState& operator=(EngineState const&) = delete;
  ~EngineState();

  [[nodiscard]] Settings const& settings() const noexcept { return blueprint.settings; }
  [[nodiscard]] engine::Exchange exchange() const noexcept {
    return {communicators.gather().all(), device.get(), gather_stream.get()};
  }
  /// All ranks of the job, stage by stage, and places in each; the same as exchange() where there is one stage.
  [[nodiscard]] engine::Exchange whole() const noexcept {
    return all_stages ? engine::Exchange{all_stages.get(), device.get(), gather_stream.get()} : exchange();
  }
  /// Of all communicators but those of channels.
  void set_options(comm::CommOptions const& options);
  [[nodiscard]] engine::Meters meters() const;
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
  /// Rank 0 claims `folder`: no other job saves there from now on. Throws SystemError.
  void claim(std::filesystem::path const& folder);
  /// Before anything but an update writes to this rank's states.
  void await_saved() const;
  /// A turn begins: for the history. Backward turns of units that stay open are none of the calls that ranks compare:
  /// they move nothing, and may begin whenever forward is over.
  void record(stage::Turn const& turn);
  /// Takes the turns of skipped units that come before `position`: joins what the other ranks do in them.
  void settle_skips(std::int64_t position);
  /// The history of this step's calls. The hash of all transactions so far is stored in it first.
  engine::History& noted_history();
  /// `total` is a sum over ranks that `mine` was part of. Throws PeerError where ranks differ.
  void check_histories(optim::StepSums const& total, engine::History const& mine, std::int64_t step);

  /// What only engines without a pipeline do. Throws ConfigError otherwise.
  void expect_one_stage(char const* call) const;
  [[nodiscard]] bool has_pipeline() const noexcept { return share.stages() > 1; }
  /// The step's action number `index`, from 0.
  [[nodiscard]] stage::Action action_at(std::int64_t index) const noexcept;
  /// All of a step.
  [[nodiscard]] std::int64_t actions_in_step() const noexcept;
  /// See AnyEngine::in_flight().
  [[nodiscard]] int in_flight() const noexcept;
  /// Does this rank speak for the job, all its stages included?
  [[nodiscard]] bool speaks() const noexcept;
  /// See AnyEngine.
  [[nodiscard]] MemoryBytes planned() const noexcept;

  JobState* job;  ///< Its ranks share the states of this stage.
  engine::Share share;
  std::unique_ptr<model::Description> model;  // what the stage has; without functions once they have given their values
  std::unique_ptr<device::Device> device;
  engine::Blueprint blueprint;
  engine::Communicators communicators;
  /// The ranks at this place of all stages, and all ranks; null where there is one stage, as is the next.
  std::unique_ptr<comm::Communicator> stages, all_stages;
  std::unique_ptr<engine::Channels> channels;
  std::unique_ptr<device::Stream> gather_stream, reduce_stream;  // end first: their work uses all of the rest
  std::unique_ptr<shard::CallLog> calls;                         // of comms_logger
  std::unique_ptr<shard::ShardManager> manager;
  std::unique_ptr<stage::Schedule> schedule;
  std::optional<engine::Protocol> protocol;
  std::optional<engine::StepBook> book;
  engine::Doorway doorway;
  float gradient_prescale = 1;
  float first_run_loss = 0;  ///< Of the last micro-step that ran twice.
  bool finished = false;     ///< finish() was called, and no pass has begun since: nothing is under way.
  bool told_nonfinite = false;
  std::vector<std::string> metrics;                  ///< Their names.
  std::int64_t samples = 0;                          ///< That completed steps have taken, over all ranks.
  std::int64_t first_step = 0;                       ///< The last one before those that this engine has run.
  std::string stage_file;                            ///< Resolved.
  std::uint64_t run_id = 0;                          ///< Random, the same on all ranks.
  std::optional<StepReport> kept_report;             ///< That finish() owes, and had no way to give.
  std::unique_ptr<engine::Reporter> reporter;        ///< On rank 0.
  std::unique_ptr<checkpoint::FolderLock> claimed;   ///< Of rank 0, by claim().
  std::unique_ptr<engine::Checkpoints> checkpoints;  ///< From the first save on; ends before all else.

 private:
  EngineState(Job& job, Mesh* mesh, Model const& model, Config const& config);
  void set_up(Mesh* mesh, Model const& model, Config const& config);
  void make_pipeline(Mesh& mesh, Model const& given, Config const& config);
  void agree_over_stages(std::uint64_t of_model, std::uint64_t of_schedule);
  void expect_room() const;
  void tell_others(std::exception_ptr const& error) noexcept;
  void end_streams() noexcept;
  void agree(Config const& config);
  void tell_user(Config const& config) const;

  int exceptions_at_start_;
  std::string crossing_;  // a warning, or empty
  bool takes_of_host_ = false;
  std::vector<engine::RankRoom> rooms_;  // of this stage's ranks, then of all, in order
};

}  // namespace zeroth::detail
