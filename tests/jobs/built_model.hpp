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

struct BuiltUnit {
  Unit unit;
  std::vector<AnyParam> read{};                        ///< All that it uses.
  std::vector<std::optional<model::CutPart>> parts{};  ///< What tensor ranks have of each of those that they cut.
  std::vector<AnyParam> trained{};                     ///< Of those, what backward writes gradients of.
  std::size_t in_parts = 0;  ///< The first ones of `trained`, whose gradients no two tensor ranks have.
};

struct BuiltModel {
  /// What `part` has of it: of the job that goes on if `again`.
  BuiltModel(Drawn const& drawn, TensorPart part, bool again = false);
  Model model;
  std::vector<BuiltUnit> units;
  std::vector<std::pair<std::string, AnyParam>> params;  ///< Each once.
};

}  // namespace zeroth::testing::jobs
