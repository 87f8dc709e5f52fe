/// Behind every Engine<T, G>: holds the parts together, checks every call, and keeps the books of a step.
#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/finding.hpp"
#include "engine/history.hpp"
#include "engine/planning.hpp"
#include "engine/replicas.hpp"
#include "zeroth/comm/communicator.hpp"
#include "zeroth/core/counter.hpp"
#include "zeroth/device/device.hpp"
#include "zeroth/engine/engine.hpp"
#include "zeroth/shard/shard_manager.hpp"
#include "zeroth/stage/schedule.hpp"

namespace zeroth::engine {
class SafetensorsReader;
class SafetensorsWriter;
}  // namespace zeroth::engine

namespace zeroth::detail {

class EngineState {
 public:
  EngineState(Job& job, Model const& model, Config const& config, Dtype compute, Dtype gradient);
  EngineState(EngineState const&) = delete;
  EngineState& operator=(EngineState const&) = delete;
  ~EngineState();

  // passes
  void begin_pass(EvaluationRecord* evaluation);  ///< Null: a micro-step.
  void end_pass(bool by_exception) noexcept;
  [[nodiscard]] EvaluationRecord begin_evaluation(int passes);
  [[nodiscard]] float report_loss(float mean, LossOptions const& options);
  [[nodiscard]] float report_loss(DeviceLoss mean, LossOptions const& options);
  void skip_unit(Unit unit);
  void skip_pass();
  [[nodiscard]] std::int64_t first_sample() const noexcept;
  [[nodiscard]] float evaluation_loss(EvaluationRecord const& evaluation);

  // guards
  [[nodiscard]] std::uint64_t open(stage::Phase phase, Unit unit);
  void close(std::uint64_t guard, bool by_exception) noexcept;
  [[nodiscard]] void const* parameter_address(std::uint64_t guard, std::uint32_t model, std::uint32_t param);
  [[nodiscard]] Contribution contribute(std::uint64_t guard, std::uint32_t model, std::uint32_t param);
  void fill_zero(void* data, std::int64_t bytes);

  // steps
  [[nodiscard]] std::optional<StepReport> step(StepOptions const& options);
  [[nodiscard]] std::optional<StepReport> finish();

  void trace(Timeline* timeline);

  // values
  void save_weights(std::filesystem::path const& file);
  void load_weights(std::filesystem::path const& file);

  [[nodiscard]] Settings const& settings() const noexcept { return blueprint_.settings; }
  [[nodiscard]] MemoryBytes peak() const noexcept { return device_->ledger().peak(); }
  [[nodiscard]] MemoryBytes planned() const noexcept { return manager_->plan().bytes; }
  [[nodiscard]] device::StreamRef compute_stream() const noexcept { return device_->compute().native(); }

 private:
  struct OpenGuard {
    std::uint64_t id;
    stage::Turn turn;
  };
  /// What a pass has seen of a unit.
  struct UnitProgress {
    int forwards = 0, backwards = 0;
    bool skipped = false;
  };

  void set_up(Job const& job, Config const& config);
  void tell_others(std::exception_ptr const& error) noexcept;
  void end_streams() noexcept;
  void agree(Config const& config);
  void tell_user() const;
  void meet(std::string_view purpose);
  [[nodiscard]] engine::Exchange exchange() const noexcept;
  void compare_replicas(shard::Moments moments, std::string const& after);
  /// Runs `action`; what it throws is the end of this engine.
  template <class F>
  void or_end(F const& action) {
    try {
      action();
    } catch (...) {
      remember_failure(std::current_exception());
      throw;
    }
  }
  void together(std::string_view purpose, std::string_view failed, std::function<void()> const& action);
  void send_slices(engine::SafetensorsWriter* writer, device::Memory& on_host, std::exception_ptr& refused);
  void store_slices(engine::SafetensorsReader const& reader, std::span<float> values, engine::Finding& finding);
  void check_usable(char const* call);
  void check_thread(char const* call) const;
  void remember_failure(std::exception_ptr error) noexcept;
  void check_between_passes(char const* call);
  [[nodiscard]] std::string const& unit_name(std::uint32_t unit) const noexcept;
  [[nodiscard]] std::string state() const;
  void check_unit(Unit unit, std::string_view call) const;
  void check_param(std::uint32_t model, std::uint32_t param, char const* call) const;
  void check_open(stage::Phase phase, Unit unit) const;
  [[nodiscard]] float begin_report(LossOptions const& options);
  void settle_skips(std::int64_t position);
  void take_turn(stage::Turn const& turn);
  void record_turn(stage::Turn const& turn);
  void end_training_pass();
  void end_evaluation_pass();
  [[nodiscard]] engine::History& history() noexcept { return histories_[static_cast<std::size_t>(steps_ % 2)]; }
  [[nodiscard]] optim::StepRules rules_for(StepOptions const& options) const;
  void check_histories(optim::StepSums const& total, engine::History const& mine, std::int64_t step);
  [[nodiscard]] std::optional<StepReport> take_report();
  void tell_nonfinite(StepReport const& report);
  [[noreturn]] void end_together(std::string const& why);

  JobState* job_;
  std::shared_ptr<model::Description const> model_;
  engine::Blueprint blueprint_;
  std::unique_ptr<device::Device> device_;
  std::shared_ptr<comm::Communicator> gather_comm_, reduce_comm_;  // the same, if there is to be a single one
  std::unique_ptr<device::Stream> gather_stream_, reduce_stream_;  // end first: their work uses all of the rest
  std::unique_ptr<shard::ShardManager> manager_;
  std::unique_ptr<stage::Schedule> schedule_;
  float gradient_prescale_ = 1;
  int exceptions_at_start_;
  std::thread::id const thread_ = std::this_thread::get_id();
  std::exception_ptr failure_;
  bool finished_ = false;  ///< finish() was called, and no pass has begun since: nothing is under way.

  // the pass
  std::optional<stage::PassKind> pass_;
  std::optional<OpenGuard> guard_;
  std::uint64_t guards_ = 0;
  std::vector<UnitProgress> progress_;
  std::int64_t position_ = -1;  ///< Of the last turn in declared order.
  bool loss_reported_ = false;
  bool pass_skipped_ = false;

  // the step
  std::int64_t steps_ = 0;  ///< Completed.
  int micro_steps_ = 0;     ///< Of this step.
  optim::StepSums sums_;
  std::vector<optim::LossTerm> losses_;  // of this step, if the device knows them
  std::array<engine::History, 2> histories_;
  std::optional<StepReport> owed_;  ///< Of the last step, without what the device knows.
  bool told_nonfinite_ = false;
  Clock::time_point step_began_;
  double waited_ms_ = 0;
  shard::Traffic traffic_;
  std::int64_t misses_ = 0;

  // evaluation
  std::uint64_t evaluations_ = 0;           ///< The last one's id.
  EvaluationRecord* evaluation_ = nullptr;  ///< Of the open pass; null in training.
};

}  // namespace zeroth::detail
