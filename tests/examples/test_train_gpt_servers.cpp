// SPDX-License-Identifier: Apache-2.0
// The program with parameter servers.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "program.hpp"
#include "support/catch.hpp"

using namespace gpt;
using Catch::Contains;

namespace {

/// `servers` of the `ranks` are parameter servers; 0: stage 1 without servers.
std::vector<json> train(Place const& place, int ranks, int servers, std::string const& more) {
  place.write("stage.json", stage_file(servers > 0 ? 0 : 1, R"(, "bf16": {"enabled": true})"));
  auto const result = run(place.command(fmt::format(
      "{} --report report --ranks {} --set zeroth.parameter_server.servers={} {}", small, ranks, servers, more)));
  INFO(result.output);
  REQUIRE(result.ending.status == 0);
  auto const report = place.report();
  int ranks_with_memory = 0;
  for (auto const& record : report) {
    if (record["record"] == "memory") {
      ++ranks_with_memory;
      CHECK(record["planned"] == record["measured_peak"]);
    }
  }
  CHECK(ranks_with_memory == ranks);
  return report;
}

}  // namespace

TEST_CASE("train_gpt's workers with servers have the numbers of stage 1", "[rank threads]") {
  Place const place;
  auto const expected = numbers_of(train(place, 2, 0, "--steps 4"));
  REQUIRE(expected.size() == 4);
  CHECK(numbers_of(train(place, 3, 1, "--steps 4")) == expected);
  CHECK(numbers_of(train(place, 4, 2, "--steps 4 --trace trace")) == expected);
}

TEST_CASE("train_gpt resumes with servers what it saved without, and the reverse") {
  Place const place;
  auto const expected = numbers_of(train(place, 2, 0, "--steps 6"));
  for (int const first : {0, 1}) {
    auto const folder = fmt::format("saved{}", first);
    auto const resume = fmt::format("--checkpoint {} --resume auto", folder);
    static_cast<void>(train(place, 2 + first, first, "--steps 3 --checkpoint " + folder));
    auto const rest = numbers_of(train(place, 3 - first, 1 - first, "--steps 6 " + resume));
    CHECK(rest == json(std::vector<json>(expected.begin() + 3, expected.end())));
  }
}

TEST_CASE("train_gpt's stale workers train, each by its own loss") {
  Place const place;
  auto const losses = train(place, 3, 1,
                            "--steps 20 --set zeroth.parameter_server.staleness=2 --set gradient_clipping=0 "
                            "--set zeroth.reduce_gradients=last_micro_step");
  auto const steps = steps_of(losses);
  REQUIRE(steps.size() == 20);
  for (auto const& step : steps) {
    CHECK(step["staleness"].get<int>() >= 0);
    CHECK(step["staleness"].get<int>() <= 2);
  }
  CHECK(steps.back()["loss"].get<double>() < 0.8 * steps.front()["loss"].get<double>());
}
