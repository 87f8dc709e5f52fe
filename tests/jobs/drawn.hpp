// SPDX-License-Identifier: Apache-2.0
/// A job that a seed draws: its options, stage files and model.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "jobs/options.hpp"
#include "zeroth/model/cut.hpp"

namespace zeroth::testing::jobs {

/// The properties of a parameter.
struct DrawnParam {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Empty: a number.
  int init = 0;                     ///< Index of the kind of Init.
  bool trainable = true, has_gradient = true;
  float learning_rate_factor = 1, weight_decay_factor = 1;
  bool fp32 = false;  ///< ParamOptions::compute.
  /// The division among tensor ranks.
  struct Division {
    std::optional<Cut> cut{};
    bool partial = false;
  };
  Division division{}, division_that_goes_on{};
};

struct DrawnUnit {
  std::vector<DrawnParam> params;
  std::vector<std::string> tied;  ///< Parameters of units before it.
  int uses = 1;
  bool declares_uses = true;
  bool stays_open = false;
  bool reshards = true;  ///< UnitOptions::reshard_after_forward.
  bool may_be_skipped = false;
  int input_per_sample = 0;  ///< UnitOptions::input_per_sample; 0 if no pipeline stage may begin here.
};

/// Parameter servers; 0 without any.
[[nodiscard]] int servers_of(Choice const& choice);
/// Whether several workers may be stale, so that no two runs have the same bits.
[[nodiscard]] bool has_stale_workers(Choice const& choice);

struct Drawn {
  std::uint64_t seed = 0;
  Choice choice;   ///< The job's, until it resumes.
  Choice resumed;  ///< The choice after that, possibly at another stage. Options that decide bits are the same.
  std::vector<DrawnUnit> units;
  int steps = 3;
  int saved_at = 0;    ///< The step of the checkpoint from which it resumes; 0: never.
  int goes_on_at = 0;  ///< The last step before it resumes. Steps after `saved_at` are repeated.

  int stops_at = 1;  ///< The step in which a rank asks to stop.

  /// Ranks of one stage with the same part of parameters, without parameter servers.
  [[nodiscard]] int ranks() const;
  [[nodiscard]] bool changes_ranks() const;
  [[nodiscard]] int world() const;  ///< Ranks of all stages, and parameter servers.
  [[nodiscard]] int world_that_goes_on() const;
  [[nodiscard]] int most_of_world() const;
  /// Ranks of the reference, which has one stage. Their number differs if bits must not depend on it.
  [[nodiscard]] int world_of_reference() const;
  [[nodiscard]] int world_of_reference_that_goes_on() const;
  [[nodiscard]] int most_of_reference() const;
  [[nodiscard]] bool trains(std::string const& param) const;
  /// Whether each run has other bits.
  [[nodiscard]] bool is_random() const { return has_stale_workers(choice) || has_stale_workers(resumed); }
};

/// Given options replace drawn ones. `ranks` is the number of processes; no job has more.
struct Given {
  std::optional<int> ranks;
  std::vector<std::pair<std::string, std::string>> options;
};

/// Stages of the pipeline; 1 without a mesh.
[[nodiscard]] int stages_of(Choice const& choice);
/// Ranks that divide parameters; 1 without any.
[[nodiscard]] int tensor_of(Choice const& choice);
/// Chunks of the whole model.
[[nodiscard]] std::size_t chunks_of(Choice const& choice);
[[nodiscard]] Choice draw_choice(std::uint64_t seed, Given const& given);
[[nodiscard]] Drawn draw(std::uint64_t seed, Given const& given);
/// The description of a job that a failure prints.
[[nodiscard]] nlohmann::json described(Drawn const& drawn);

}  // namespace zeroth::testing::jobs
