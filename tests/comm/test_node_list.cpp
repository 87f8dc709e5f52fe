// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/node_list.hpp"

#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;
using Nodes = std::vector<std::string>;

TEST_CASE("node lists in Slurm's notation are expanded") {
  struct Row {
    char const* list;
    Nodes nodes;
  };
  std::vector<Row> const rows{
      {"n1", {"n1"}},
      {"a,b", {"a", "b"}},
      {"a[001-003,7],b2,c[1-2]-ib", {"a001", "a002", "a003", "a7", "b2", "c1-ib", "c2-ib"}},
      {"node-[08-11]", {"node-08", "node-09", "node-10", "node-11"}},
      {"n[9-11]", {"n9", "n10", "n11"}},
      {"n[099-101]", {"n099", "n100", "n101"}},
      {"n[5]", {"n5"}},
      {"n[0]", {"n0"}},
      {"[1-2]", {"1", "2"}},
      {"r[1-2]n[1-2]", {"r1n1", "r1n2", "r2n1", "r2n2"}},
      {"r[01,3]-n[7-8].cluster", {"r01-n7.cluster", "r01-n8.cluster", "r3-n7.cluster", "r3-n8.cluster"}},
      {"login.example.org,10.0.0.1", {"login.example.org", "10.0.0.1"}},
  };
  for (auto const& row : rows) {
    CAPTURE(row.list);
    CHECK(expand_node_list(row.list, "SLURM_NODELIST") == row.nodes);
  }
  CHECK(expand_node_list("n[0001-1024]", "X").size() == 1024);
  CHECK(expand_node_list("n[0001-1024]", "X").back() == "n1024");
}

TEST_CASE("malformed node lists are rejected with a quote and the position") {
  struct Row {
    char const* list;
    char const* problem;
  };
  std::vector<Row> const rows{
      {"", "a name is missing at character 1"},
      {",a", "a name is missing at character 1"},
      {"a,", "a name is missing at character 3"},
      {"a,,b", "a name is missing at character 3"},
      {"a[1-3", "a '[' without ']' at character 6"},
      {"a[1-3,", "a number is missing at character 7"},
      {"a[", "a number is missing at character 3"},
      {"a[]", "a number is missing at character 3"},
      {"a]", "a ']' without '[' at character 2"},
      {"]", "a name is missing at character 1"},
      {"a[1-]", "a number is missing at character 5"},
      {"a[-3]", "a number is missing at character 3"},
      {"a[x]", "a number is missing at character 3"},
      {"a[1x]", "neither a digit"},
      {"a[1-2-3]", "neither a digit"},
      {"a[[1]]", "a number is missing at character 3"},
      {"a[3-1]", "a range from 3 down to 1"},
      {"a[1,,2]", "a number is missing at character 5"},
      {"a b", "a blank at character 2"},
      {"a[1 -2]", "neither a digit"},
      {"n[0-999999999]", "more than 1048576 nodes"},
      {"n[1-1048576],m", "more than 1048576 nodes"},
      {"a[1-2000]b[1-2000]", "more than 1048576 nodes"},
      {"a[1234567890123456789]", "a number of 19 digits"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.list);
    auto const error = testing::thrown<ConfigError>([&] { return expand_node_list(row.list, "SLURM_STEP_NODELIST"); });
    CHECK_THAT(error, Contains(std::string{"SLURM_STEP_NODELIST='"} + row.list + "'") && Contains(row.problem));
  }
}

}  // namespace
}  // namespace zeroth::comm
