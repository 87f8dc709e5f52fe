/// AdamW on masters of bf16.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "../../optim/adamw_element.hpp"
#include "../../optim/stochastic_rounding.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "zeroth/optim/adamw.hpp"

namespace zeroth::optim {
namespace {

using testing::Numbers;
using testing::random_floats;
using testing::rounded;

std::vector<float> magnitudes(std::vector<float> values) {
  for (float& value : values) {
    value = std::fabs(value);
  }
  return values;
}

/// All that one call reads and writes. S is the moments' type.
template <class G, class S>
struct State {
  std::vector<bf16> master;
  std::vector<S> m, v;
  std::vector<G> gradient;

  State(std::int64_t count, Numbers numbers)
      : master{rounded<bf16>(random_floats(count, numbers, 1))},
        m{rounded<S>(random_floats(count, numbers, 2))},
        v{rounded<S>(magnitudes(random_floats(count, numbers, 3)))},
        gradient{rounded<G>(random_floats(count, numbers, 4))} {}

  /// Keeps no copy of the segments.
  [[nodiscard]] AdamwArgs args(StepScalars const& scalars, std::vector<AdamwSegment> const& segments) {
    AdamwArgs args;
    args.master = master.data();
    args.master_dtype = Dtype::bf16;
    args.m = m.data();
    args.v = v.data();
    args.moments_dtype = dtype_of<S>;
    args.gradient = gradient.data();
    args.gradient_dtype = dtype_of<G>;
    args.count = std::ssize(master);
    args.segments = segments;
    args.scalars = &scalars;
    args.rules.weight_decay = 0.1F;
    args.rules.rounding_seed = 0x123456789abcdef;
    return args;
  }

  /// First element that differs, in any stream; -1 if none does.
  [[nodiscard]] std::int64_t difference(State const& other) const {
    return std::max({testing::first_difference(master, other.master), testing::first_difference(m, other.m),
                     testing::first_difference(v, other.v)});
  }
};

StepScalars scalars_of_update(std::int64_t update) {
  StepRules rules;
  StepScalars scalars;
  scalars.applied = update - 1;
  rules.schedule.base = 0.01F;
  advance(rules, {1, 0, 3, 0}, scalars);
  return scalars;
}

template <class S>
S store_rounded(float value, RoundingNoise const& noise, Rounded what, std::uint64_t element) {
  if constexpr (std::is_same_v<S, float>) {
    return value;
  } else {
    auto const words = noise_words(noise, what, element / noise_lanes);
    return round_stochastically(value, noise_at(words, static_cast<int>(element % noise_lanes)));
  }
}

/// One element after another, as the headers of the arithmetic say.
template <class G, class S>
void update_one_by_one(State<G, S>& state, AdamwArgs const& args) {
  auto const noise = noise_of(args.rules, *args.scalars);
  for (auto const& segment : args.segments) {
    auto const factors = factors_of(args.rules, *args.scalars, segment);
    for (auto k = segment.begin; k < segment.end; ++k) {
      auto const i = static_cast<std::size_t>(k);
      auto const element = static_cast<std::uint64_t>(segment.element + k - segment.begin);
      float master = to_float(state.master[i]), m = to_float(state.m[i]), v = to_float(state.v[i]);
      update_element(factors, to_float(state.gradient[i]), master, m, v);
      state.master[i] = store_rounded<bf16>(master, noise, Rounded::master, element);
      state.m[i] = store_rounded<S>(m, noise, Rounded::m, element);
      state.v[i] = store_rounded<S>(v, noise, Rounded::v, element);
    }
  }
}

/// Boundaries and places everywhere: empty, of one element, odd, beyond a block, past 2^35, with gaps.
std::vector<AdamwSegment> ragged(std::int64_t count) {
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
  auto const segments = GENERATE(std::vector<AdamwSegment>{{0, count, 1, 1, 0}}, ragged(count));
  auto const scalars = scalars_of_update(7);
  auto const run = [&](auto const& update) {
    State<G, S> state{count, numbers};
    auto args = state.args(scalars, segments);
    args.rules.decoupled_decay = decoupled;
    update(state, args);
    return state;
  };
  auto const expected = run([](auto& state, auto const& args) { update_one_by_one(state, args); });
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    auto const got = run([](auto&, auto const& args) { adamw(args); });
    INFO(testing::name_of(isa));
    CHECK(got.difference(expected) == -1);
  }
}

TEST_CASE("every count and place up to some blocks of vectors is right to the last element") {
  auto const scalars = scalars_of_update(2);
  for (Isa const isa : testing::all_isas()) {
    testing::WithIsa const with{isa};
    std::int64_t wrong = 0;
    for (std::int64_t count = 0; count < 150; ++count) {
      std::vector<AdamwSegment> const segments{{0, count, 1, 1, count % 11}};
      State<bf16, bf16> got{count, Numbers::ordinary}, expected{count, Numbers::ordinary};
      adamw(got.args(scalars, segments));
      update_one_by_one(expected, expected.args(scalars, segments));
      wrong += got.difference(expected) == -1 ? 0 : 1;
    }
    INFO(testing::name_of(isa));
    CHECK(wrong == 0);
  }
}

TEST_CASE("how a model is cut into segments changes nothing") {
  constexpr std::int64_t count = 3000;
  auto const scalars = scalars_of_update(5);
  State<bf16, bf16> whole{count, Numbers::ordinary}, cut{count, Numbers::ordinary};
  adamw(whole.args(scalars, {{0, count, 1, 1, 1000}}));
  adamw(cut.args(scalars, {{0, 77, 1, 1, 1000}, {77, 1024, 1, 1, 1077}, {1024, count, 1, 1, 2024}}));
  CHECK(cut.difference(whole) == -1);
  State<bf16, bf16> elsewhere{count, Numbers::ordinary};
  adamw(elsewhere.args(scalars, {{0, count, 1, 1, 1001}}));
  CHECK(elsewhere.difference(whole) != -1);
}

TEST_CASE("an update that is skipped leaves masters and moments of bf16 alone") {
  State<bf16, bf16> state{100, Numbers::any};
  auto const before = state;
  StepScalars scalars;
  scalars.skip = true;
  adamw(state.args(scalars, {{0, 100, 1, 1, 0}}));
  CHECK(std::memcmp(state.master.data(), before.master.data(), 200) == 0);
  CHECK(std::memcmp(state.m.data(), before.m.data(), 200) == 0);
  CHECK(std::memcmp(state.v.data(), before.v.data(), 200) == 0);
}

TEST_CASE("a second moment in bf16 decays as it should, which to nearest it never would") {
  constexpr std::int64_t count = 4000;
  State<bf16, bf16> state{count, Numbers::ordinary};
  std::ranges::fill(state.v, from_float<bf16>(1));
  std::ranges::fill(state.gradient, bf16{0});
  std::vector<AdamwSegment> const segments{{0, count, 1, 1, 0}};
  constexpr int updates = 1000;
  for (int update = 1; update <= updates; ++update) {
    auto const scalars = scalars_of_update(update);
    adamw(state.args(scalars, segments));
  }
  double sum = 0;
  for (bf16 const v : state.v) {
    sum += static_cast<double>(to_float(v));
  }
  REQUIRE(to_float(from_float<bf16>(0.999F)) == 1);
  // One element's relative deviation is below sqrt(updates * 0.001 * 2^-7); 5 sigma of the mean.
  CHECK(sum / count == Approx(std::pow(static_cast<double>(0.999F), updates)).epsilon(5 * 0.089 / 63));
}

}  // namespace zeroth::optim
