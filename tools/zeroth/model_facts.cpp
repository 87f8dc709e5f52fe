#include "model_facts.hpp"

#include <iterator>

#include <zeroth/model/description.hpp>
#include <zeroth/shard/layout.hpp>

namespace zeroth::tools {

ModelFacts facts_of(Model const& model) {
  auto const& description = model.description();
  ModelFacts facts;
  facts.units = std::ssize(description.units);
  shard::Layout const layout{description, 1};  // its units have the same parameters in any world
  for (auto const& flat : layout.flats()) {
    facts.parameters += flat.used_count();
    if (flat.used_count() > facts.largest_unit_count) {
      facts.largest_unit = flat.name;
      facts.largest_unit_count = flat.used_count();
    }
  }
  return facts;
}

}  // namespace zeroth::tools
