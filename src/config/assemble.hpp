/// From values to the types that the layers below the file work from.
#pragma once
#include <string_view>

#include "config/values.hpp"
#include "zeroth/config/settings.hpp"
#include "zeroth/core/dtype.hpp"

namespace zeroth::config {

[[nodiscard]] Dtype dtype_named(std::string_view name);

/// All values are known and hold the rules.
[[nodiscard]] Settings assemble(Values const& values);

}  // namespace zeroth::config
