// SPDX-License-Identifier: Apache-2.0
/// A drawn model as an engine takes it.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "jobs/drawn.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing::jobs {

struct BuiltUnit {
  Unit unit;
  std::vector<AnyParam> read;     ///< All that it uses.
  std::vector<AnyParam> trained;  ///< Of those, what backward writes gradients of.
};

struct BuiltModel {
  explicit BuiltModel(Drawn const& drawn);
  Model model;
  std::vector<BuiltUnit> units;
  std::vector<std::pair<std::string, AnyParam>> params;  ///< Each once.
};

}  // namespace zeroth::testing::jobs
