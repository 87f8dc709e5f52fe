// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/placing.hpp"

#include "comm/store/presence.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

LaunchedRank placed(std::optional<int> local_rank, int world = 16) {
  return {
      .launcher = "torchrun", .variables = "RANK=5 WORLD_SIZE=16", .rank = 0, .world = world, .local_rank = local_rank};
}

TEST_CASE("a rank's device is its local rank") {
  struct Row {
    LaunchedRank launched;
    int device_count, device;
  };
  std::vector<Row> const rows{
      {placed(0), 1, 0},
      {placed(0), 8, 0},
      {placed(7), 8, 7},
      {placed(3), 1, 0},  // a launcher that hides all devices but the rank's own
      {placed(std::nullopt), 1, 0},
      {placed(std::nullopt, 1), 8, 0},
      {placed(2, 3), 8, 2},
  };
  for (auto const& row : rows) {
    CAPTURE(row.launched.local_rank.value_or(-1), row.device_count);
    CHECK(device_of(row.launched, row.device_count) == row.device);
  }
}

TEST_CASE("ranks without a device are refused") {
  auto const error_of = [](LaunchedRank const& launched, int device_count, std::string const& visible) {
    return testing::thrown<ConfigError>(
        [&] { return device_of(launched, device_count, visible, "the driver is too old"); });
  };
  CHECK_THAT(error_of(placed(0), 0, ""), Contains("it needs a GPU, but its process sees none: the driver is too old"));
  CHECK_THAT(error_of(placed(2), 0, "CUDA_VISIBLE_DEVICES="), Contains("sees none (CUDA_VISIBLE_DEVICES=)"));
  CHECK_THAT(error_of(placed(4), 4, "CUDA_VISIBLE_DEVICES=0,1,2,3"),
             Contains("local rank 4 has no GPU of its own: its process sees 4 (CUDA_VISIBLE_DEVICES=0,1,2,3)") &&
                 Contains("start one rank for each GPU") && Contains("LaunchOptions::share_devices"));
  CHECK_THAT(error_of(placed(std::nullopt), 4, ""),
             Contains("sees 4 GPUs, and torchrun (RANK=5 WORLD_SIZE=16) did not say which is its own: set LOCAL_RANK"));
  auto by_srun = placed(std::nullopt);
  by_srun.kind = Launcher::slurm;
  CHECK_THAT(error_of(by_srun, 4, ""), Contains("set SLURM_LOCALID in the environment"));
}

TEST_CASE("two ranks on one device are detected") {
  std::vector<Presence> const apart{{"node1", "a", "0000:01:00.0", ""},
                                    {"node1", "a", "0000:02:00.0", ""},
                                    {"node2", "b", "0000:01:00.0", ""},
                                    {"node2", "b", "", ""},
                                    {"node2", "b", "", ""}};
  CHECK_NOTHROW(check_unshared(apart));
  CHECK_NOTHROW(check_unshared({}));
  auto together = apart;
  together.push_back({"container7", "a", "0000:02:00.0", ""});  // another name, but the same machine
  together.push_back({"node1", "a", "0000:02:00.0", ""});
  CHECK_THAT(testing::thrown<ConfigError>([&] { check_unshared(together); }),
             Contains("ranks 1, 5, 6 would all compute on GPU 0000:02:00.0 of node1 (NCCL counts its MIG slices as "
                      "one GPU): start one rank") &&
                 Contains("LaunchOptions::share_devices"));
}

TEST_CASE("the first rank that cannot take part is named") {
  std::vector<Presence> ranks{{"node1", "a", "", ""}, {"node2", "b", "", "no driver"}, {"node3", "c", "", "no luck"}};
  CHECK(testing::thrown<ConfigError>([&] { check_able(ranks); }) == "rank 1 on node2 cannot take part: no driver");
  ranks[1].problem = ranks[2].problem = "";
  CHECK_NOTHROW(check_able(ranks));
}

TEST_CASE("a machine's identity is the same in each call") {
  CHECK_FALSE(machine_id().empty());
  CHECK(machine_id() == machine_id());
}

}  // namespace
}  // namespace zeroth::comm
