#include <variant>

#include "core/fnv.hpp"
#include "zeroth/model/description.hpp"

namespace zeroth::model {
namespace {

struct AddInit {
  Fnv1a& hash;
  void operator()(Constant const& init) const noexcept { hash.add(init.value); }
  void operator()(Normal const& init) const noexcept {
    hash.add(init.stddev);
    hash.add(init.mean);
  }
  void operator()(Uniform const& init) const noexcept {
    hash.add(init.low);
    hash.add(init.high);
  }
  void operator()(PerElement const&) const noexcept {}
};

}  // namespace

/// Of what a model is made of; every field is closed by its length or kind, so that none runs into the next.
std::uint64_t fingerprint(Description const& description) {
  Fnv1a hash;
  hash.add(description.seed);
  hash.add(static_cast<std::uint64_t>(description.units.size()));
  for (auto const& unit : description.units) {
    hash.add(unit.name);
    hash.add(static_cast<std::uint64_t>(unit.uses_per_micro_step));
    hash.add(static_cast<std::uint64_t>(unit.params.size()));
    for (auto const param : unit.params) {
      hash.add(std::uint64_t{param});
    }
    hash.add(static_cast<std::uint64_t>(unit.ties.size()));
    for (auto const param : unit.ties) {
      hash.add(std::uint64_t{param});
    }
  }
  for (auto const& param : description.params) {
    hash.add(param.name);
    hash.add(static_cast<std::uint64_t>(param.shape.size()));
    for (auto const extent : param.shape) {
      hash.add(static_cast<std::uint64_t>(extent));
    }
    hash.add(static_cast<std::uint64_t>(param.init.index()));
    std::visit(AddInit{hash}, param.init);
    hash.add(std::uint64_t{param.options.trainable});
    hash.add(param.options.learning_rate_factor);
    hash.add(param.options.weight_decay_factor);
  }
  return hash.value();
}

}  // namespace zeroth::model
