// SPDX-License-Identifier: Apache-2.0
/// Converts values to the settings of the layers below the stage file.
#pragma once
#include <optional>
#include <string_view>

#include "config/values.hpp"
#include "zeroth/attention/block_layout.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::config {

[[nodiscard]] Dtype dtype_named(std::string_view name);

/// The settings of a mesh and of its pipeline. All values must be known.
[[nodiscard]] std::optional<optim::NewtonSchulzMethod> newton_schulz_method(Values const& values);
[[nodiscard]] PipelineSettings pipeline(Values const& values);
[[nodiscard]] ParameterServerSettings parameter_server(Values const& values);
[[nodiscard]] int tensor_ranks(Values const& values);  ///< The size of zeroth.mesh.tensor. All values must be known.

/// The file's settings for activations. All values must be known.
[[nodiscard]] ActivationSettings activations(Values const& values);

/// The layout of attention; empty if the file asks for none. Throws Unknown while a value is unknown.
[[nodiscard]] std::optional<SparseAttention> sparse_attention(Values const& values);

/// All values must be known and satisfy the rules. `own` replaces the rule of optimizer.type; null keeps it.
[[nodiscard]] Settings assemble(Values const& values, optim::CustomRule const* own);

}  // namespace zeroth::config
