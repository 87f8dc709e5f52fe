/// What one says of a model in a line.
#pragma once
#include <cstdint>
#include <string>

#include <zeroth/model/model.hpp>

namespace zeroth::tools {

/// Counts are elements.
struct ModelFacts {
  std::int64_t parameters = 0;  ///< Tied ones once.
  std::int64_t units = 0;
  std::string largest_unit;  ///< Of flat units: the one that sets the slots' size.
  std::int64_t largest_unit_count = 0;
};

[[nodiscard]] ModelFacts facts_of(Model const& model);

}  // namespace zeroth::tools
