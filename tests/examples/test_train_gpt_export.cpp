// SPDX-License-Identifier: Apache-2.0
// Models that a mesh has trained, as other programs read them.
#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>

#include "engine/safetensors_file.hpp"
#include "program.hpp"
#include "support/catch.hpp"

using namespace gpt;
using zeroth::testing::SafetensorsFile;

namespace {

/// Dtypes and shapes of a file's tensors, by name.
std::map<std::string, std::string> shapes_in(SafetensorsFile const& file) {
  std::map<std::string, std::string> shapes;
  for (auto const& [name, entry] : file.header.items()) {
    if (name != "__metadata__") {
      shapes[name] = entry.at("dtype").dump() + entry.at("shape").dump();
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("weights of tensor ranks in a pipeline are exported with the names, shapes and values of one rank") {
  bool const sequence = GENERATE(false, true);
  Place const place;
  place.write("stage.json", stage_file(3));
  auto const train = [&](int ranks, int tensor, int pipeline, std::string const& more) {
    auto const result = run(place.command(fmt::format(
        "--layers 3 --heads 4 --channels 16 --context 12 --steps 3 --untied-head --ranks {} --set optimizer.type=SGD "
        "--set zeroth.mesh.tensor={} --set zeroth.mesh.pipeline={} "
        "--set zeroth.sequence_parallel={} {}",
        ranks, tensor, pipeline, sequence && tensor > 1, more)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
  };
  auto const weights_in = [&](char const* folder) {
    return SafetensorsFile::parse(read_all(place / folder / "model.safetensors"));
  };
  train(2, 1, 1, "--save-initial initial --save-final one");
  train(8, 2, 2, "--save-final mesh --checkpoint saved");
  auto const exported = run({.command = {ZEROTH_TOOL, "checkpoint", "export", "saved", "exported"},
                             .folder = place.path(),
                             .environment = {}});
  INFO(exported.output);
  REQUIRE(exported.ending.status == 0);

  auto const initial = weights_in("initial"), one = weights_in("one"), mesh = weights_in("mesh"),
             out = weights_in("exported");
  auto const shapes = shapes_in(one);
  REQUIRE(shapes.size() == 41);  // 12 of each layer, two tables, the head, the last norm
  CHECK(shapes_in(mesh) == shapes);
  CHECK(shapes_in(out) == shapes);
  for (auto const& [name, shape] : shapes) {
    INFO(name);
    CHECK(out.floats(name) == mesh.floats(name));
    auto const before = initial.floats(name), alone = one.floats(name), divided = mesh.floats(name);
    double moved = 0, apart = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      moved += std::abs(static_cast<double>(alone[i]) - static_cast<double>(before[i]));
      apart += std::abs(static_cast<double>(alone[i]) - static_cast<double>(divided[i]));
    }
    CHECK(moved > 0);
    CHECK(apart < 1e-3 * moved);  // sums of products are divided at other places
  }
}
