// SPDX-License-Identifier: Apache-2.0
/// Which calls are legal, tested without a job, a device or memory.
#include <stdexcept>
#include <vector>

#include "engine/protocol.hpp"
#include "engine/small_model.hpp"
#include "shard/layout.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
using engine::Protocol;
using stage::PassKind;
using stage::Phase;

/// The protocol of the small model, with 2 micro-steps per step.
struct Rules {
  SmallModel small;
  shard::Layout layout{small.model.description(), 2};
  stage::Order order{layout, {}};
  Protocol protocol{small.model.description(), order, {2, 4}};

  std::uint64_t open(Phase phase, std::size_t unit) {
    protocol.check_open(phase, small.units[unit]);
    return protocol.opened(protocol.begin_turn(phase, small.units[unit].id()));
  }
  stage::Turn turn(Phase phase, std::size_t unit) { return *protocol.closed(open(phase, unit)); }
  /// The units of skipped turns before `position`: u for forward, -1 - u for backward.
  std::vector<int> skipped(std::int64_t position) {
    std::vector<int> turns;
    while (auto const at = protocol.next_skipped(position)) {
      auto const unit = static_cast<int>(at->unit);
      turns.push_back(at->phase == Phase::forward ? unit : -1 - unit);
    }
    return turns;
  }
};

}  // namespace

TEST_CASE("calls of a pass are rejected outside of a pass") {
  Rules rules;
  CHECK_THAT(thrown<ContractError>([&] { rules.open(Phase::forward, 1); }),
             Contains("forward of unit \"block1\" outside of a pass"));
  CHECK_THAT(thrown<ContractError>([&] { rules.protocol.check_loss({}); }),
             Contains("report_loss() outside of a pass"));
  CHECK_THAT(thrown<ContractError>([&] { rules.protocol.check_step({}); }),
             Contains("step() after 0 of 2 micro-steps of step 1"));
}

TEST_CASE("guards may overlap in any order up to the limit, except two of one unit in one phase") {
  Rules rules;
  rules.protocol.begin_micro_step();
  auto const first = rules.open(Phase::forward, 0);
  auto const second = rules.open(Phase::forward, 1);
  CHECK(rules.protocol.state() == "the forward guard of unit \"block1\" is open");
  CHECK_THAT(thrown<ContractError>([&] { rules.open(Phase::forward, 0); }),
             Contains("forward of unit \"block0\" while the forward guard of this unit is open"));
  auto const third = rules.open(Phase::backward, 0);  // recomputation opens both
  CHECK(rules.protocol.closed(first)->unit == 0_unit);
  CHECK(!rules.protocol.closed(first));
  CHECK(rules.protocol.closed(third)->phase == Phase::backward);
  CHECK_THAT(thrown<ContractError>([&] { rules.protocol.check_end_of_pass(false); }),
             Contains("a pass ended while the forward guard of unit \"block1\" is open"));
  CHECK(rules.protocol.closed(second)->unit == 1_unit);
  rules.protocol.check_end_of_pass(false);

  Model many;
  for (std::size_t u = 0; u <= Protocol::most_open_guards; ++u) {
    static_cast<void>(many.unit(fmt::format("u{}", u)));
  }
  shard::Layout const layout{many.description(), 1};
  stage::Order const order{layout, {}};
  Protocol protocol{many.description(), order, {1, 2}};
  protocol.begin_micro_step();
  for (std::uint32_t u = 0; u < Protocol::most_open_guards; ++u) {
    protocol.check_open(Phase::forward, many.unit_at(u));
    static_cast<void>(protocol.opened(protocol.begin_turn(Phase::forward, id_at<UnitId>(u))));
  }
  CHECK_THAT(
      thrown<ContractError>([&] { protocol.check_open(Phase::forward, many.unit_at(Protocol::most_open_guards)); }),
      Contains("forward of unit \"u16\" while 16 guards are open, which is the limit"));
}

TEST_CASE("turns of skipped units come in declared order, before the next turn") {
  Rules rules;
  rules.protocol.begin_micro_step();
  CHECK(!rules.protocol.skip(rules.small.units[1]));
  CHECK(rules.skipped(2) == std::vector<int>{1});
  static_cast<void>(rules.turn(Phase::forward, 2));
  CHECK(rules.skipped(2).empty());
  CHECK(rules.skipped(5) == std::vector<int>{-2});
  static_cast<void>(rules.turn(Phase::backward, 2));
  static_cast<void>(rules.turn(Phase::backward, 0));
  rules.protocol.loss_reported();
  CHECK(rules.skipped(6).empty());
  rules.protocol.end_micro_step();
  CHECK(rules.protocol.micro_steps() == 1);
}

TEST_CASE("a unit that ran forward may be skipped in backward, in time or late") {
  for (bool const late : {false, true}) {
    Rules rules;
    rules.protocol.begin_micro_step();
    for (std::size_t unit = 0; unit < 3; ++unit) {
      static_cast<void>(rules.skipped(static_cast<std::int64_t>(unit)));
      static_cast<void>(rules.turn(Phase::forward, unit));
    }
    rules.protocol.loss_reported();
    CHECK(rules.skipped(3).empty());
    static_cast<void>(rules.turn(Phase::backward, 2));
    if (!late) {
      CHECK(!rules.protocol.skip(rules.small.units[1]));
    }
    CHECK(rules.skipped(5) == (late ? std::vector<int>{} : std::vector<int>{-2}));
    static_cast<void>(rules.turn(Phase::backward, 0));
    if (late) {
      CHECK(rules.protocol.skip(rules.small.units[1]));
    }
    CHECK(rules.skipped(6).empty());
    rules.protocol.end_micro_step();
  }
}

TEST_CASE("a unit's uses are those of forward before backward begins, and the last one is known") {
  Rules rules;
  rules.protocol.begin_micro_step();
  for (int use = 0; use < 2; ++use) {
    static_cast<void>(rules.turn(Phase::forward, 1));
  }
  CHECK(!rules.turn(Phase::backward, 1).last);
  static_cast<void>(rules.turn(Phase::forward, 1));  // recomputation
  CHECK(rules.turn(Phase::backward, 1).last);
  CHECK_THAT(thrown<ContractError>([&] { rules.open(Phase::backward, 1); }),
             Contains("backward of unit \"block1\", call 3 in a micro-step: it declares no uses_per_micro_step, and "
                      "its forward turns before the loss were 2"));
}

TEST_CASE("after a failure every call reports the first failure") {
  Rules rules;
  rules.protocol.fail(std::make_exception_ptr(std::runtime_error{"the disk burned"}));
  rules.protocol.fail(std::make_exception_ptr(std::runtime_error{"something else"}));
  CHECK_THAT(thrown<ContractError>([&] { rules.protocol.begin_micro_step(); }),
             Contains("a micro-step begins: the engine failed before: the disk burned"));
}

}  // namespace zeroth::testing
