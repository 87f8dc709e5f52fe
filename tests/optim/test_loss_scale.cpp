// SPDX-License-Identifier: Apache-2.0
/// The expected scales are what DeepSpeed 0.19.8's DynamicLossScaler has after each update_scale(overflow).
#include "zeroth/optim/loss_scale.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

LossScaleRules rules() {
  LossScaleRules result;
  result.dynamic = true;
  result.initial = 64;
  result.window = 3;
  result.hysteresis = 2;
  return result;
}

/// One character per step; x overflows. Ends early where the scaler gives up.
std::vector<float> scales(LossScaleRules const& rules, std::string const& steps) {
  auto state = initial_state(rules);
  std::vector<float> result;
  for (char const step : steps) {
    update(rules, step == 'x', state);
    if (state.exhausted) {
      break;
    }
    result.push_back(state.scale);
  }
  return result;
}

TEST_CASE("a scale that is never too large doubles every window") {
  CHECK(scales(rules(), ".............") ==
        std::vector<float>{64, 64, 64, 128, 128, 128, 256, 256, 256, 512, 512, 512, 1024});
}

TEST_CASE("hysteresis forgives overflows until it is used up, and growth restores it") {
  CHECK(scales(rules(), "xxx....x......xx.x") ==
        std::vector<float>{64, 32, 16, 16, 16, 16, 32, 32, 32, 32, 32, 64, 64, 64, 64, 32, 32, 16});
  auto three = rules();
  three.hysteresis = 3;
  CHECK(scales(three, "xx..x....xxx....xx") ==
        std::vector<float>{64, 64, 64, 64, 32, 32, 32, 32, 64, 64, 64, 32, 32, 32, 32, 64, 64, 64});
}

TEST_CASE("without hysteresis every overflow halves") {
  auto one = rules();
  one.hysteresis = 1;
  CHECK(scales(one, "x.x..x......") == std::vector<float>{32, 32, 16, 16, 16, 8, 8, 8, 8, 16, 16, 16});
}

TEST_CASE("consecutive hysteresis is restored by every good step") {
  auto consecutive = rules();
  consecutive.consecutive_hysteresis = true;
  CHECK(scales(consecutive, "x.x.xx.....x.xx") ==
        std::vector<float>{64, 64, 64, 64, 64, 32, 32, 32, 32, 64, 64, 64, 64, 64, 32});
}

TEST_CASE("a window of one doubles after two good steps in a row") {
  auto one = rules();
  one.window = 1;
  CHECK(scales(one, "....x...") == std::vector<float>{64, 128, 256, 512, 512, 512, 1024, 2048});
}

TEST_CASE("a scale that nothing holds back stays a number, and comes back") {
  auto one = rules();
  one.window = 1;
  auto const grown = scales(one, std::string(300, '.'));
  CHECK(grown.back() == 0x1p126F);
  CHECK(grown[299 - 100] == 0x1p126F);
  auto const back = scales(one, std::string(300, '.') + "xxxx");
  CHECK(std::vector<float>(back.end() - 4, back.end()) == std::vector<float>{0x1p126F, 0x1p125F, 0x1p124F, 0x1p123F});
  one.initial = 3;  // not a power of two
  CHECK(scales(one, std::string(300, '.')).back() == 0x1p126F);
}

TEST_CASE("an overflow at the smallest scale exhausts it and changes nothing else") {
  CHECK(scales(rules(), "xxxxxxxxx") == std::vector<float>{64, 32, 16, 8, 4, 2, 1});

  auto bounded = rules();
  bounded.initial = 12;
  bounded.minimum = 4;
  bounded.hysteresis = 1;
  CHECK(scales(bounded, "xxxxx") == std::vector<float>{6, 4});

  auto state = initial_state(bounded);
  state.scale = 4;
  state.iteration = 7;
  update(bounded, true, state);
  CHECK(state.exhausted);
  CHECK(state.scale == 4);
  CHECK(state.iteration == 7);
  CHECK(state.last_overflow == -1);
}

TEST_CASE("at the smallest scale hysteresis still forgives") {
  auto state = initial_state(rules());
  state.scale = 1;
  update(rules(), true, state);
  CHECK_FALSE(state.exhausted);
  CHECK(state.hysteresis_left == 1);
  update(rules(), true, state);
  CHECK(state.exhausted);
}

TEST_CASE("a static scale never moves") {
  LossScaleRules fixed;
  fixed.initial = 128;
  auto state = initial_state(fixed);
  for (int i = 0; i < 5000; ++i) {
    update(fixed, i % 3 == 0, state);
  }
  CHECK(state.scale == 128);
  CHECK_FALSE(state.exhausted);
  CHECK(state.iteration == 0);
}

}  // namespace
}  // namespace zeroth::optim
