// SPDX-License-Identifier: Apache-2.0
/// The stage file: DeepSpeed's keys and a "zeroth" section.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zeroth/attention/block_layout.hpp"
#include "zeroth/config/note.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"
#include "zeroth/core/export.hpp"

namespace zeroth {

namespace detail {
struct ConfigState;
}

/// Values that a program adds to a stage file: JSON objects with the file's keys, as text, or empty.
struct ConfigInputs {
  /// Values for what the file leaves open: "auto", missing batch sizes, or a missing optimizer or scheduler. Ignored
  /// where the file has a value.
  std::string given;
  std::string given_by = "<given>";  ///< Its name in messages, such as its file's.
  std::string stated;  ///< Like `given`, but a contradiction of the file is an error. For options of a program.
  std::string stated_by = "the command line";  ///< Its name in messages.
  std::string changes;                         ///< Overrides values of the file.
};

/// A stage file. Immutable, and safe to share between threads. Functions that make one throw a single ConfigError that
/// lists every problem. A file may leave values open; settings(), and so plan() and every engine, throws a ConfigError
/// that lists those.
class ZEROTH_EXPORT Config {
 public:
  /// Reads a regular file. Throws ConfigError, also if the file cannot be read.
  [[nodiscard]] static Config from_file(std::filesystem::path const& path, ConfigInputs const& inputs = {});
  /// Reads a file. `given` is a JSON object with values for what the file leaves open.
  [[nodiscard]] static Config from_file(std::filesystem::path const& path, std::string_view given);
  /// Parses the text of a stage file. Throws ConfigError.
  [[nodiscard]] static Config from_json(std::string_view text, ConfigInputs const& inputs = {});
  /// Returns a copy in which the JSON object `changes` overrides values of the file: {"zero_optimization": {"stage":
  /// 2}}. Derives the other values again. Messages still name this file.
  [[nodiscard]] Config with(std::string_view changes) const;
  /// Returns a copy that trains by the program's own rule; the file must have no optimizer.type. The learning rate is
  /// the schedule's, or StepOptions::learning_rate. Throws ContractError if the rule has no name or no function, more
  /// than optim::most_states states, or a state whose initial value is not finite. An Engine on a GPU rejects it.
  [[nodiscard]] Config with(optim::CustomRule rule) const;
  /// Returns a copy in which the program's own function computes the products of the optimizer Muon, on the thread that
  /// calls step(). Other optimizers do not use it. step() throws what it throws. If ranks are threads that share this
  /// config, they call it concurrently. Throws ContractError if it is empty. An Engine on a GPU rejects it.
  [[nodiscard]] Config with(optim::Multiply multiply) const;
  [[nodiscard]] Dtype compute_dtype() const;   ///< Dtype of the parameters that guards provide. Throws if it is open.
  [[nodiscard]] Dtype gradient_dtype() const;  ///< Dtype of the memory that backward writes. Throws if it is open.
  /// Requests of the file about activations. Only the program can fulfil them.
  [[nodiscard]] ActivationSettings activation_checkpointing() const;
  /// The layout of attention that the file asks for, zeroth.sparse_attention; empty: attention is dense. Only the
  /// program can fulfil it, with a BlockLayout. The context is not known here: see SparseAttention::problems().
  [[nodiscard]] std::optional<SparseAttention> sparse_attention() const;
  /// The settings that a Mesh reads: the number of stages, and their schedule.
  [[nodiscard]] PipelineSettings pipeline() const;
  /// optimizer.params.ns_method; empty with other optimizers than Muon. Throws if optimizer.type is open.
  [[nodiscard]] std::optional<optim::NewtonSchulzMethod> newton_schulz_method() const;
  /// Number of ranks that divide parameters among themselves (tensor parallelism). A Mesh reads it.
  [[nodiscard]] int tensor_ranks() const;
  /// The settings of parameter servers. A job has as many ranks more than there are workers.
  [[nodiscard]] ParameterServerSettings parameter_server() const;
  /// Whether the program should also divide rows among those ranks: see TensorParallelOptions::sequence. Engines do not
  /// read it.
  [[nodiscard]] bool sequence_parallel() const;
  /// Values that the file leaves open and that were not given.
  [[nodiscard]] std::vector<config::OpenValue> const& open() const noexcept;
  /// Throws the ConfigError that lists open values, if there are any.
  void expect_complete() const;
  /// Settings of the file that have no effect here. An engine logs them once, on rank 0.
  [[nodiscard]] config::Notes const& notes() const noexcept;
  [[nodiscard]] std::string const& source() const noexcept;  ///< The file's name.
  [[nodiscard]] std::string to_string() const;               ///< Every value with its origin: file, derived or default.
  [[nodiscard]] std::string to_json() const;  ///< All values as one JSON object: path -> {value, origin}.
  /// Resolves all settings for `world` ranks. `largest_unit_count` (elements) replaces "auto" bucket and prefetch
  /// sizes. Throws ConfigError if the batch sizes contradict `world`.
  [[nodiscard]] Settings settings(int world, std::int64_t largest_unit_count) const;

 private:
  explicit Config(std::shared_ptr<detail::ConfigState const> state) noexcept;
  std::shared_ptr<detail::ConfigState const> state_;
};

}  // namespace zeroth
