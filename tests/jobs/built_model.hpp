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
  std::optional<model::CutPart> part;  ///< That this tensor rank has, if they cut it.
};

struct BuiltUnit {
  Unit unit;
  std::vector<BuiltParam> read{};     ///< All that it uses.
  std::vector<BuiltParam> trained{};  ///< Those whose gradients backward writes.
  std::size_t in_parts = 0;           ///< The first ones of `trained`, whose gradients no two tensor ranks have.
};

struct BuiltModel {
  /// What `part` has of it: of the job that goes on if `again`.
  BuiltModel(Drawn const& drawn, TensorPart part, bool again = false);
  Model model;
  std::vector<BuiltUnit> units;
  std::vector<std::pair<std::string, AnyParam>> params;  ///< Each once.
};

}  // namespace zeroth::testing::jobs
