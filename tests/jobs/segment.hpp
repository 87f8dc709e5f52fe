// SPDX-License-Identifier: Apache-2.0
/// One engine of a drawn job: its rank's calls and results until the job ends or another engine resumes it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jobs/built_model.hpp"
#include "jobs/disk_traffic.hpp"
#include "jobs/drawn.hpp"
#include "jobs/record.hpp"
#include "jobs/stage_walk.hpp"
#include "jobs/tensor_sums.hpp"
#include "jobs/walk.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing::jobs {

/// The folder and kind of a job; the same on all ranks.
struct Place {
  std::filesystem::path folder;
  bool is_reference = false;
  comm::Transport transport = comm::Transport::local;
};

/// Whether a job resumes. If it resumes with the same number of ranks, it must equal an uninterrupted run, so its
/// reference does not resume.
[[nodiscard]] inline bool goes_on(Drawn const& drawn, Place const& place) {
  return drawn.saved_at > 0 && (!place.is_reference || drawn.changes_ranks());
}
/// The rank that asks to stop, among `ranks` ranks.
[[nodiscard]] inline int asking_rank(Drawn const& drawn, int ranks) {
  return static_cast<int>(drawn.seed % static_cast<unsigned>(ranks));
}

/// One engine, on `job`.
class Segment {
 public:
  /// `again`: this engine resumes the job. `stop_asked`: a rank of this job has asked to stop before.
  Segment(Job& job, Drawn const& drawn, bool again, bool stop_asked, Place const& place, Record& record);
  [[nodiscard]] bool serves() const noexcept { return engine_.serves(); }
  /// Runs a parameter server.
  void serve();
  /// Restores the checkpoint from which it resumes.
  void restore();
  void steps(int first, int last);
  /// Records the final results, and saves them.
  void end();
  void check_bytes();

 private:
  [[nodiscard]] std::unique_ptr<TensorSums> tensor_sums();
  [[nodiscard]] std::size_t stage() const { return mesh_ ? static_cast<std::size_t>(mesh_->place().stage) : 0; }
  /// In a pipeline, the plan states the bytes on disk of one stage only.
  [[nodiscard]] bool has_plan_of_disk() const { return plan_.pipeline.empty() || plan_.largest_stage == stage(); }
  /// Whether an option has `value`. The reference leaves such options out.
  [[nodiscard]] bool moves(char const* option, char const* value) const {
    return !place_.is_reference && choice_.is(option, value);
  }
  static std::size_t count_of(AnyParam const& param);
  void expect_refusal_of_other_data();
  Saving save(std::filesystem::path const& folder, int step);
  /// Reads and checks the state that every rank has saved.
  void check_rank_states(Restored const& restored);
  /// One rank asks in the middle of the step. The reports of this and all later steps show that on all ranks.
  void ask_to_stop(int step);
  void gradient_norms(int step);
  void micro_steps(int step);
  void actions(int step);
  void make(int step);
  /// Saves a checkpoint from which no job resumes. This comes before everything else between two steps.
  void save_beside(int step);
  void between_micro_steps(int step);
  void between_steps(int step);
  void averages(int step);
  void evaluate(int step, int passes, char const* when = "between");
  /// Each rank records the values of its stage.
  void show_values();
  /// The parts of all tensor ranks, concatenated.
  std::vector<float> of_tensor_ranks(std::vector<float> const& own);
  /// Records all parameters, right before a checkpoint and right after it was restored: they must be the same.
  void show_saved();
  void read(int step);
  void write(int step);
  void weight_file();
  void show(std::optional<StepReport> const& report);

  Job& job_;
  Drawn const& drawn_;
  Choice const& choice_;
  std::string prefix_;  // prefix of names if repeated steps have other bits
  bool restored_;
  int stops_from_;  // the first step whose report shows a stop
  Place const& place_;
  Record& record_;
  Config config_;
  Timeline timeline_;
  std::int64_t events_ = 0;
  std::optional<Mesh> mesh_;
  BuiltModel built_;
  AnyEngine engine_;
  std::unique_ptr<TensorSums> tensor_;  // with tensor ranks
  std::unique_ptr<KeptInputs> kept_;    // with activations on a disk, but not in a pipeline
  Walk walk_;
  std::optional<StageWalk> stage_walk_;  // in a pipeline
  Plan plan_;
  DiskTraffic traffic_;
  std::vector<Metric> metrics_;
};

}  // namespace zeroth::testing::jobs
