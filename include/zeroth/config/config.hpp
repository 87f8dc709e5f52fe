// SPDX-License-Identifier: Apache-2.0
/// The stage file: DeepSpeed's keys and a "zeroth" section.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/config/note.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

namespace detail {
struct ConfigState;
}

/// What a program has beside a stage file: JSON objects with the file's keys, each a text, or empty.
struct ConfigInputs {
  /// For what the file leaves open, "auto" and batch sizes that are absent, or an optimizer or scheduler that it does
  /// not have. Where the file says something, this is ignored.
  std::string given;
  std::string given_by = "<given>";  ///< What messages call it: its file.
  std::string stated;                ///< As `given`, but what the file contradicts is an error: options of a program.
  std::string stated_by = "the command line";  ///< What messages call it.
  std::string changes;                         ///< Takes the place of what the file says.
};

/// A stage file. Immutable, and shared by threads. Makers throw one ConfigError that lists every problem. A file may
/// leave values open; settings(), and with it plan() and every engine, throws one ConfigError that lists those.
class ZEROTH_EXPORT Config {
 public:
  /// Reads a regular file. Throws ConfigError, also if it cannot be read.
  [[nodiscard]] static Config from_file(std::filesystem::path const& path, ConfigInputs const& inputs = {});
  /// With values for what the file leaves open: a JSON object.
  [[nodiscard]] static Config from_file(std::filesystem::path const& path, std::string_view given);
  /// The text of one. Throws ConfigError.
  [[nodiscard]] static Config from_json(std::string_view text, ConfigInputs const& inputs = {});
  /// A copy in which what `changes`, a JSON object, says takes the place of what the file says: {"zero_optimization":
  /// {"stage": 2}}. What neither says is derived again. Messages name this file.
  [[nodiscard]] Config with(std::string_view changes) const;
  /// A copy that trains by a rule of the program's own, where the file has no optimizer.type. The rate is the
  /// schedule's, or StepOptions::learning_rate. Throws ContractError for a rule without a name or a function, with more
  /// states than optim::most_states, or with one that does not start from a finite number. An Engine on a GPU refuses
  /// it.
  [[nodiscard]] Config with(optim::CustomRule rule) const;
  [[nodiscard]] Dtype compute_dtype() const;   ///< Of the parameters that guards hand out. Not while it is open.
  [[nodiscard]] Dtype gradient_dtype() const;  ///< Of the memory that backward writes. Not while it is open.
  /// What the file asks of activations, which are the program's own: nobody does it otherwise.
  [[nodiscard]] ActivationSettings activation_checkpointing() const;
  /// What a Mesh reads: the number of stages, and their schedule.
  [[nodiscard]] PipelineSettings pipeline() const;
  [[nodiscard]] int tensor_ranks() const;  ///< Likewise: how many ranks divide parameters among themselves.
  /// Whether a program is to divide rows among them, too: see TensorParallelOptions::sequence. Engines do not read it.
  [[nodiscard]] bool sequence_parallel() const;
  /// What the file leaves to the program and nobody has given.
  [[nodiscard]] std::vector<config::OpenValue> const& open() const noexcept;
  /// Throws the ConfigError that lists what is open, if anything is.
  void expect_complete() const;
  /// What the file says that is without effect here. An engine lists it once, on rank 0.
  [[nodiscard]] config::Notes const& notes() const noexcept;
  [[nodiscard]] std::string const& source() const noexcept;  ///< The name of the file.
  [[nodiscard]] std::string to_string() const;               ///< Every value with its origin: file, derived or default.
  [[nodiscard]] std::string to_json() const;                 ///< The same as one JSON object: path -> {value, origin}.
  /// Everything resolved for `world` ranks. Throws ConfigError if the batch sizes contradict it. `largest_unit_count`
  /// (elements) is what "auto" bucket and prefetch sizes become.
  [[nodiscard]] Settings settings(int world, std::int64_t largest_unit_count) const;

 private:
  explicit Config(std::shared_ptr<detail::ConfigState const> state) noexcept;
  std::shared_ptr<detail::ConfigState const> state_;
};

}  // namespace zeroth
