// SPDX-License-Identifier: Apache-2.0
/// AdamW on masters of bf16.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "optim/update_case.hpp"
#include "support/catch.hpp"

namespace zeroth::optim {
namespace {

using testing::Numbers;
using testing::scalars_of_update;
/// S is the moments' type.
template <class G, class S>
using Given = testing::UpdateCase<G, bf16, bf16, S>;

/// Segments with all kinds of boundaries and places: empty, of one element, odd, beyond a block, past 2^35, with gaps.
std::vector<Segment> ragged(std::int64_t count) {
  constexpr std::int64_t far = (std::int64_t{1} << 35U) - 700;
  return {{0, 0, 1, 1, 0},          {1, 2, 1, 0, 7},           {2, 19, 2, 1, 128},
          {64, 64 + 31, 1, 1, far}, {100, 1701, 0.5F, 2, far}, {1701, count - 3, 1, 0, 12345}};
}

}  // namespace

TEMPLATE_TEST_CASE("every instruction set rounds to the bits of one element after another", "",
                   (std::pair<bf16, float>), (std::pair<bf16, bf16>), (std::pair<float, float>),
                   (std::pair<float, bf16>), (std::pair<fp16, float>), (std::pair<fp16, bf16>)) {
  using G = typename TestType::first_type;
  using S = typename TestType::second_type;
  constexpr std::int64_t count = 4001;
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any_finite, Numbers::any);
  bool const decoupled = GENERATE(true, false);
  auto const segments = GENERATE(std::vector<Segment>{{0, count, 1, 1, 0}}, ragged(count));
  auto const scalars = scalars_of_update(7);
  testing::check_all_isas<Given<G, S>>(count, numbers, [&](auto& state) {
    state.adam().decoupled_decay = decoupled;
    return state.args(scalars, segments);
  });
}

TEST_CASE("every count and place up to some blocks of vectors is right to the last element") {
  auto const scalars = scalars_of_update(2);
  for (std::int64_t count = 0; count < 150; ++count) {
    std::vector<Segment> const segments{{0, count, 1, 1, count % 11}};
    testing::check_all_isas<Given<bf16, bf16>>(count, Numbers::ordinary,
                                               [&](auto& state) { return state.args(scalars, segments); });
  }
}

TEST_CASE("how a model is cut into segments changes nothing") {
  constexpr std::int64_t count = 3000;
  auto const scalars = scalars_of_update(5);
  Given<bf16, bf16> whole{count, Numbers::ordinary}, cut{count, Numbers::ordinary};
  update(whole.args(scalars, {{0, count, 1, 1, 1000}}));
  update(cut.args(scalars, {{0, 77, 1, 1, 1000}, {77, 1024, 1, 1, 1077}, {1024, count, 1, 1, 2024}}));
  CHECK(cut.difference(whole) == -1);
  Given<bf16, bf16> elsewhere{count, Numbers::ordinary};
  update(elsewhere.args(scalars, {{0, count, 1, 1, 1001}}));
  CHECK(elsewhere.difference(whole) != -1);
}

TEST_CASE("an update that is skipped leaves masters and moments of bf16 alone") {
  Given<bf16, bf16> state{100, Numbers::any};
  auto const before = state;
  StepScalars scalars;
  scalars.skip = true;
  update(state.args(scalars, {{0, 100, 1, 1, 0}}));
  CHECK(std::memcmp(state.master.data(), before.master.data(), 200) == 0);
  CHECK(std::memcmp(state.states[0].data(), before.states[0].data(), 200) == 0);
  CHECK(std::memcmp(state.states[1].data(), before.states[1].data(), 200) == 0);
}

TEST_CASE("a second moment in bf16 decays as it should, which to nearest it never would") {
  constexpr std::int64_t count = 4000;
  Given<bf16, bf16> state{count, Numbers::ordinary};
  std::ranges::fill(state.states[1], from_float<bf16>(1));
  std::ranges::fill(state.gradient, bf16{0});
  std::vector<Segment> const segments{{0, count, 1, 1, 0}};
  constexpr int updates = 1000;
  for (int t = 1; t <= updates; ++t) {
    auto const scalars = scalars_of_update(t);
    update(state.args(scalars, segments));
  }
  double sum = 0;
  for (bf16 const v : state.states[1]) {
    sum += static_cast<double>(to_float(v));
  }
  REQUIRE(to_float(from_float<bf16>(0.999F)) == 1);
  // One element's relative deviation is below sqrt(updates * 0.001 * 2^-7); 5 sigma of the mean.
  CHECK(sum / count == Approx(std::pow(static_cast<double>(0.999F), updates)).epsilon(5 * 0.089 / 63));
}

}  // namespace zeroth::optim
