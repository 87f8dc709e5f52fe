// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include <zeroth/tool/core/utf8.hpp>

#include "checkpoint_diff.hpp"
#include "readable.hpp"
#include "safe_json.hpp"
#include "text_table.hpp"

namespace zeroth::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string dtypes_text(StateDifference const& state) {
  return state.dtype == state.other_dtype ? std::string{name_of(state.dtype)}
                                          : fmt::format("{}, {}", name_of(state.dtype), name_of(state.other_dtype));
}

std::string difference_table(std::vector<StateDifference> const& states, Paper const& paper) {
  std::vector<Row> rows{{"state of parameter", "dtype", "elements", "differ", "first", "largest difference"}};
  for (auto const& state : states) {
    rows.push_back({fmt::format("{} of {}", escaped(state.state), escaped(state.param)), dtypes_text(state),
                    grouped(state.count), grouped(state.differing), state.differing > 0 ? grouped(state.first) : "",
                    fmt::format("{:.3g}", state.largest)});
  }
  return aligned(rows, paper);
}

}  // namespace

std::string as_text(CheckpointDifference const& difference, Paper const& paper) {
  auto const compared =
      fmt::format("{} of {}", counted(difference.elements, "element"), counted(difference.params, "parameter"));
  std::string text;
  if (difference.same()) {
    text = fmt::format("{}: {} and {}: {}, and all else that training resumes from\n", paper.good("same"),
                       difference.path.string(), difference.other.string(), compared);
  } else {
    text = fmt::format("{}: {} and {}: {} compared\n", paper.bad("different"), difference.path.string(),
                       difference.other.string(), compared);
    for (auto const& [what, value, other] : difference.values) {
      text += fmt::format("{}: {}, and {}\n", what, value, other);
    }
    if (difference.values_left_out > 0) {
      text += fmt::format("and {} more of the kind\n", grouped(difference.values_left_out));
    }
    text += difference.states.empty() ? "" : difference_table(difference.states, paper);
  }
  if (!difference.settings.empty()) {
    text += "in the second's stage file, which training does not resume from:\n";
    for (auto const& setting : difference.settings) {
      text += fmt::format("  {}\n", setting);
    }
  }
  return text;
}

std::string as_json(CheckpointDifference const& difference) {
  Json json{{"paths", {difference.path.string(), difference.other.string()}},
            {"same", difference.same()},
            {"parameters", difference.params},
            {"elements", difference.elements},
            {"values", Json::array()},
            {"values_left_out", difference.values_left_out},
            {"states", Json::array()},
            {"stage_file", difference.settings}};
  for (auto const& [what, value, other] : difference.values) {
    json["values"].push_back({{"what", what}, {"values", {value, other}}});
  }
  for (auto const& state : difference.states) {
    json["states"].push_back(
        {{"state", state.state},
         {"parameter", state.param},
         {"dtypes", {name_of(state.dtype), name_of(state.other_dtype)}},
         {"elements", state.count},
         {"differing", state.differing},
         {"first", state.differing > 0 ? Json(state.first) : Json(nullptr)},
         {"largest_difference", std::isfinite(state.largest) ? Json(state.largest) : Json("infinite")}});
  }
  return safe_text(json);
}

}  // namespace zeroth::tools
