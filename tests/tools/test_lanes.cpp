/// Timelines as text.
#include "lanes.hpp"

#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

TEST_CASE("A column has the letter of what took most of its time") {
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

TEST_CASE("Work shows where it takes more than a fifth of a column, waiting where it takes more than half") {
  Timeline timeline;
  timeline.add({"compute", "forward", "a", 0, 1.9});
  timeline.add({"compute", "forward", "a", 10, 12.1});
  timeline.add({"compute", "wait", "", 20, 24.9});
  timeline.add({"compute", "wait", "", 30, 35.1});
  timeline.add({"compute", "wait", "", 40, 47});
  timeline.add({"compute", "backward", "a", 47, 50});
  CHECK(lanes_of(timeline, 50, 5) ==
        " compute | F .B|\n"
        "  gather |     |\n"
        "  reduce |     |\n");
}

TEST_CASE("What has no length, or nothing at all, leaves blanks") {
  Timeline timeline;
  CHECK(lanes_of(timeline, 0, 2) == " compute |  |\n  gather |  |\n  reduce |  |\n");
  timeline.add({"compute", "forward", "a", 10, 10});
  CHECK(lanes_of(timeline, 10, 2) == " compute |  |\n  gather |  |\n  reduce |  |\n");
}

}  // namespace
}  // namespace zeroth::tools
