// SPDX-License-Identifier: Apache-2.0
/// A drawn model as an engine takes it.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/drawn.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing::jobs {

struct BuiltParam {
  AnyParam param;
  std::optional<model::CutPart> part;  ///< This tensor rank's part, if the parameter is cut.
};

struct BuiltUnit {
  Unit unit;
  std::vector<BuiltParam> read{};     ///< All parameters that it uses.
  std::vector<BuiltParam> trained{};  ///< The parameters whose gradients backward writes.
  std::size_t in_parts = 0;           ///< The number of parameters, from the first of `trained` on, whose gradients are
                                      ///< divided among tensor ranks.
};

struct BuiltModel {
  /// The model's part for `part`; that of the resumed job if `again`.
  BuiltModel(Drawn const& drawn, TensorPart part, bool again = false);
  Model model;
  std::vector<BuiltUnit> units;
  std::vector<std::pair<std::string, AnyParam>> params;  ///< Each once.
};

}  // namespace zeroth::testing::jobs
