// SPDX-License-Identifier: Apache-2.0
/// Processes in groups train like threads at stage 0, bit for bit, with sums in one level and in two, within the
/// planned memory. Run by mpirun, and by zeroth run over tcp; every rank compares itself with a job of as many threads
/// in its own process.
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "groups.hpp"
#include "support/catch.hpp"
#include "support/process_transport.hpp"
#include "support/synthetic.hpp"
#include "tiers.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

TEST_CASE("processes in groups have the bits of stage 0 on threads") {
  auto const types = GENERATE(fp32_types, bf16_types);
  auto const two_levels = GENERATE(false, true);
  auto const* const reduce = (types.name == fp32_types.name) == two_levels ? "every_micro_step" : "last_micro_step";
  auto const plain = [&](Movement const& move) { return Config::from_json(file(types, 0, 2, reduce, move)); };
  std::size_t next = 0;
  Trained theirs;  // the same for all groupings
  for (auto const& grouping : groupings) {
    Trained mine;
    int world = 0;
    int size = 0;
    auto const& move = movements[next++ % std::size(movements)];
    int const status = launch({.transport = process_transport()}, [&](Job& job) {
      world = job.world();
      size = world == 6 ? 3 : 2;
      mine = train_synthetic(job, in_groups(plain(move), grouping, size, two_levels), {});
    });
    REQUIRE(status == 0);
    INFO(fmt::format("{} ranks, {}, {}, {}, two levels: {}", world, types.name, reduce, grouping.name(size),
                     two_levels));
    if (next == 1) {
      theirs = train(world, in_groups(plain(movements[1]), stages_alone[0], size, two_levels));
    }
    CHECK(mine.reports.size() == 4);
    CHECK(bits_of(mine) == bits_of(theirs));
    CHECK(mine.planned == mine.peak);
  }
}

TEST_CASE("processes in groups whose parameters and states are on disks have the bits of stage 0 on threads") {
  auto const types = GENERATE(fp32_types, bf16_types);
  auto const of = [&](Movement const& move) { return Config::from_json(file(types, 0, 2, "every_micro_step", move)); };
  auto const folder = std::filesystem::temp_directory_path();
  Trained theirs;
  for (auto const& grouping : {Grouping{3, Cut::parameters}, Grouping{3, Cut::states}}) {
    for (std::size_t how = 0; how < std::size(parameters_on_disks); ++how) {
      Trained mine;
      int world = 0;
      int const status = launch({.transport = process_transport()}, [&](Job& job) {
        world = job.world();
        auto const config = in_groups(of(movements[how % std::size(movements)]), grouping, 2);
        mine = train_synthetic(
            job, on_disk(parameters_on_disk(config, parameters_on_disks[how], folder), on_disks[how], folder), {});
      });
      REQUIRE(status == 0);
      INFO(fmt::format("{} ranks, {}, {}; {}", world, types.name, grouping.name(2), parameters_on_disks[how].name()));
      if (theirs.reports.empty()) {
        theirs = train(world, of(movements[1]));
      }
      CHECK(bits_of(mine) == bits_of(theirs));
      CHECK(mine.planned == mine.peak);
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
