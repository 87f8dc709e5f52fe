#include "comm/device_choice.hpp"

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

TEST_CASE("a rank's device is its local rank") {
  struct Row {
    int local_rank, device_count;
    Sharing sharing;
    int device;
  };
  using enum Sharing;
  std::vector<Row> const rows{
      {0, 1, refuse, 0}, {0, 8, refuse, 0}, {7, 8, refuse, 7}, {7, 8, allow, 7},
      {8, 8, allow, 0},  {5, 3, allow, 2},  {3, 1, refuse, 0},  // a launcher that hides all devices but the rank's own
      {3, 1, allow, 0},
  };
  for (auto const& row : rows) {
    CAPTURE(row.local_rank, row.device_count);
    CHECK(device_of(row.local_rank, row.device_count, row.sharing) == row.device);
  }
}

TEST_CASE("ranks without a device are refused") {
  auto const error_of = [](int local_rank, int device_count, Sharing sharing, std::string const& visible) {
    return testing::thrown<ConfigError>([&] { return device_of(local_rank, device_count, sharing, visible); });
  };
  CHECK_THAT(error_of(0, 0, Sharing::refuse, ""), Contains("local rank 0 needs a device, and this process sees none"));
  CHECK_THAT(error_of(2, 0, Sharing::allow, "CUDA_VISIBLE_DEVICES="), Contains("sees none (CUDA_VISIBLE_DEVICES=)"));
  CHECK_THAT(error_of(4, 4, Sharing::refuse, "CUDA_VISIBLE_DEVICES=0,1,2,3"),
             Contains("local rank 4 has no device of its own: this process sees 4 (CUDA_VISIBLE_DEVICES=0,1,2,3)") &&
                 Contains("start at most 4 ranks on this machine, or ask for shared devices"));
  CHECK_THROWS_AS(device_of(-1, 4, Sharing::refuse), ContractError);
}

TEST_CASE("two ranks on one device are found out") {
  std::vector<Presence> const apart{{"node1", "a", "0000:01:00.0", 0},
                                    {"node1", "a", "0000:02:00.0", 1},
                                    {"node2", "b", "0000:01:00.0", 0},
                                    {"node2", "b", "", 1},
                                    {"node2", "b", "", 2}};
  CHECK_NOTHROW(check_unshared(apart));
  CHECK_NOTHROW(check_unshared({}));
  auto together = apart;
  together.push_back({"container7", "a", "0000:02:00.0", 0});  // another name, but the same machine
  together.push_back({"node1", "a", "0000:02:00.0", 2});
  CHECK_THAT(testing::thrown<ConfigError>([&] { check_unshared(together); }),
             Contains("ranks 1, 5, 6 would all compute on device 0000:02:00.0 of node1") &&
                 Contains("ask for shared devices"));
}

TEST_CASE("a machine knows itself") {
  CHECK_FALSE(machine_id().empty());
  CHECK(machine_id() == machine_id());
}

}  // namespace
}  // namespace zeroth::comm
