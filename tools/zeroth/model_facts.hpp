/// What one says of a model in a line.
#pragma once
#include <algorithm>
#include <cstdint>

#include <zeroth/model/description.hpp>
#include <zeroth/model/model.hpp>

namespace zeroth::tools {

struct ModelFacts {
  std::int64_t parameters = 0;  ///< Elements, tied ones once.
  std::int64_t units = 0;
};

[[nodiscard]] inline ModelFacts facts_of(Model const& model) {
  auto const& description = model.description();
  ModelFacts facts{.units = std::ssize(description.units)};
  for (auto const& param : description.params) {
    facts.parameters += param.count;
  }
  return facts;
}

}  // namespace zeroth::tools
