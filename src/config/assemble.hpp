// SPDX-License-Identifier: Apache-2.0
/// From values to the types that the layers below the file work from.
#pragma once
#include <string_view>

#include "config/values.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::config {

[[nodiscard]] Dtype dtype_named(std::string_view name);

/// The settings of a mesh and of its pipeline. `values` are known: a file leaves none of them open.
[[nodiscard]] PipelineSettings pipeline(Values const& values);
[[nodiscard]] int tensor_ranks(Values const& values);  ///< Likewise.

/// All values are known and hold the rules.
/// `own`: instead of a rule by optimizer.type, or null.
[[nodiscard]] Settings assemble(Values const& values, optim::CustomRule const* own);

}  // namespace zeroth::config
