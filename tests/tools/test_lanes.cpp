// SPDX-License-Identifier: Apache-2.0
/// Timelines in text form.
#include "lanes.hpp"

#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::tools {
namespace {

TEST_CASE("A column has the letter of the work that took most of its time") {
  Timeline timeline;
  timeline.add({"compute", "forward", "a", 0, 26});
  timeline.add({"compute", "backward", "a", 26, 60});
  timeline.add({"compute", "wait", "", 60, 90});
  timeline.add({"compute", "update", "a", 90, 100});
  timeline.add({"gather", "gather", "a", 10, 19});
  timeline.add({"gather", "publish", "a", 31, 39});
  timeline.add({"reduce", "wait", "", 0, 50});
  timeline.add({"reduce", "reduce", "a", 60, 81});
  timeline.add({"reduce", "decide", "", 81, 88});
  CHECK(lanes_of(timeline, 100, 10) ==
        " compute |FFFBBB...U|\n"
        "  gather | G P      |\n"
        "  reduce |..... RRD |\n");
}

TEST_CASE("Offload streams have a line if they do something") {
  Timeline timeline;
  timeline.add({"read", "read", "a", 70, 90});
  timeline.add({"update", "update", "a", 30, 60});
  timeline.add({"write", "write", "a", 10, 20});
  CHECK(lanes_of(timeline, 100, 10) ==
        " compute |          |\n"
        "  gather |          |\n"
        "  reduce |          |\n"
        "    read |       RR |\n"
        "  update |   UUU    |\n"
        "   write | W        |\n");
}

TEST_CASE("Work that never takes most of a column is drawn in proportion to its time") {
  Timeline timeline;
  for (int i = 0; i < 40; ++i) {  // a quarter of each column is waiting
    timeline.add({"compute", "forward", "a", 10.0 * i, 10.0 * i + 7.5});
    timeline.add({"compute", "wait", "", 10.0 * i + 7.5, 10.0 * i + 10});
    timeline.add({"gather", "gather", "a", 10.0 * i, 10.0 * i + 1});  // a tenth is gathering
  }
  auto const text = lanes_of(timeline, 400, 40);
  CHECK(testing::count_of(text, ".") == 10);
  CHECK(testing::count_of(text, "F") == 30);
  CHECK(testing::count_of(text, "G") == 4);
}

TEST_CASE("A wait in the middle of a turn is drawn as a wait") {
  Timeline timeline;
  timeline.add({"tensor", "sum", "a", 30, 60});
  timeline.add({"compute", "wait", "", 30, 50});
  timeline.add({"compute", "wait", "", 80, 90});
  timeline.add({"compute", "forward", "a", 0, 90});
  timeline.add({"compute", "backward", "a", 90, 100});
  CHECK(lanes_of(timeline, 100, 10) ==
        " compute |FFF..FFF.B|\n"
        "  gather |          |\n"
        "  reduce |          |\n"
        "  tensor |   SSS    |\n");
}

TEST_CASE("Work without any time is not drawn") {
  Timeline timeline;
  timeline.add({"compute", "forward", "a", 0, 14});  // has a share of 0.4 in the second column, and none in the third
  timeline.add({"compute", "backward", "a", 14, 30});
  CHECK(lanes_of(timeline, 30, 3) == " compute |FBB|\n  gather |   |\n  reduce |   |\n");
}

TEST_CASE("Work without length, and no work, leave blanks") {
  Timeline timeline;
  CHECK(lanes_of(timeline, 0, 2) == " compute |  |\n  gather |  |\n  reduce |  |\n");
  timeline.add({"compute", "forward", "a", 10, 10});
  CHECK(lanes_of(timeline, 10, 2) == " compute |  |\n  gather |  |\n  reduce |  |\n");
}

}  // namespace
}  // namespace zeroth::tools
