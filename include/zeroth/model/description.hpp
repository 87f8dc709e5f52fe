/// A model as data.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "zeroth/model/model.hpp"

namespace zeroth::model {

/// Elements that a model may have: far more than there is memory for, and few enough that no count of their bytes, with
/// all states and buffers, overflows 64 bits.
inline constexpr std::int64_t largest_count = std::int64_t{1} << 54U;

struct ParamDescription {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  Init init;
  ParamOptions options;
  std::uint32_t owner = 0;          ///< The unit that made it.
  std::vector<std::uint32_t> ties;  ///< Further units that use it, ascending.
};

struct UnitDescription {
  std::string name;
  int uses_per_micro_step = 1;
  std::vector<std::uint32_t> params;  ///< Made here, in order.
  std::vector<std::uint32_t> ties;    ///< Made elsewhere, used here too.
};

struct Description {
  std::uint32_t id = 0;  ///< Distinguishes models of one process.
  std::uint64_t seed = 0;
  std::vector<UnitDescription> units;
  std::vector<ParamDescription> params;
  std::unordered_map<std::string, std::uint32_t> param_named;  ///< Index in params.
  std::int64_t count = 0;                                      ///< Elements of all parameters.
};

/// Same units, parameters, shapes, options and seed give the same number, on every machine. Initialisers count by kind
/// and constants; a PerElement function by a few of its values. Throws ContractError if one of those is another one
/// when it is asked for again.
[[nodiscard]] std::uint64_t fingerprint(Description const& description);

/// Elements [first, first + values.size()) of `param`'s start. Counter-based (Philox 4x32-10; Salmon et al. 2011): a
/// function of (seed, name, index) alone.
void initialise(std::uint64_t seed, ParamDescription const& param, std::int64_t first, std::span<float> values);

}  // namespace zeroth::model
