/// AdamW, against the CPU's loop.
#include <type_traits>

#include "cuda/launch.hpp"
#include "machine.hpp"
#include "zeroth/optim/adamw.hpp"

namespace zeroth::cuda {
namespace {

using optim::AdamwSegment;
using testing::machine;
using testing::Numbers;
using testing::OnMachine;
using testing::random_floats;
using testing::rounded;
using testing::same_bits;

/// P is void where the master is the parameter.
template <class GradientType, class ParameterType, class MasterType = float, class MomentsType = float>
struct Types {
  using G = GradientType;
  using P = ParameterType;
  using M = MasterType;
  using S = MomentsType;
};

optim::StepScalars scalars_after(int updates) {
  optim::StepRules rules;
  rules.schedule.base = 0.02F;
  optim::StepScalars scalars;
  for (int update = 0; update < updates; ++update) {
    optim::advance(rules, {9, 2, 3, 0}, scalars);
  }
  return scalars;
}

/// The state of one update: what it reads, and what it must leave behind.
template <class G, class P, class M = float, class S = float>
struct Update {
  using Stored = std::conditional_t<Element<P>, P, float>;

  Update(std::int64_t count, Numbers numbers)
      : master{rounded<M>(random_floats(count, numbers, 1))},
        m{rounded<S>(random_floats(count, numbers, 2))},
        v{rounded<S>(random_floats(count, numbers, 3))},
        gradient{rounded<G>(random_floats(count, numbers, 4))},
        parameter(static_cast<std::size_t>(count)) {
    for (S& value : v) {
      value = from_float<S>(std::fabs(to_float(value)));
    }
    args.master_dtype = dtype_of<M>;
    args.moments_dtype = dtype_of<S>;
    args.rules.rounding_seed = 0x123456789abcdef;
    args.count = count;
    args.gradient_dtype = dtype_of<G>;
    args.parameter_dtype = dtype_of<Stored>;
    args.rules.weight_decay = 0.1F;
  }

  /// Runs it on the machine, arrays shifted by so many elements, and on the CPU; everything must be equal.
  void check(std::int64_t shift = 0, std::int64_t parameter_shift = 0) {
    OnMachine<M> const their_master{master, shift};
    OnMachine<S> const their_m{m, shift}, their_v{v, shift};
    OnMachine<G> const their_gradient{gradient, shift};
    OnMachine<Stored> const their_parameter{parameter, parameter_shift};
    OnMachine<optim::StepScalars> const their_scalars{{scalars}};
    auto theirs = args;
    theirs.master = their_master.data();
    theirs.m = their_m.data();
    theirs.v = their_v.data();
    theirs.gradient = their_gradient.data();
    theirs.parameter = Element<P> ? their_parameter.data() : nullptr;
    theirs.scalars = their_scalars.data();
    {
      auto const short_lived = segments;
      theirs.segments = short_lived;
      CHECK(adamw(machine().stream(), theirs) == cudaSuccess);
    }

    auto expected = *this;
    expected.run_here();
    CHECK(testing::first_difference(their_master.values(), expected.master) == -1);
    CHECK(testing::first_difference(their_m.values(), expected.m) == -1);
    CHECK(testing::first_difference(their_v.values(), expected.v) == -1);
    CHECK(testing::first_difference(their_parameter.values(), expected.parameter) == -1);
    CHECK(same_bits(their_gradient.values(), gradient));
  }

  void run_here() {
    auto ours = args;
    ours.master = master.data();
    ours.m = m.data();
    ours.v = v.data();
    ours.gradient = gradient.data();
    ours.parameter = Element<P> ? parameter.data() : nullptr;
    ours.segments = segments;
    ours.scalars = &scalars;
    optim::adamw(ours);
  }

  std::vector<M> master;
  std::vector<S> m, v;
  std::vector<G> gradient;
  std::vector<Stored> parameter;
  std::vector<AdamwSegment> segments;
  optim::StepScalars scalars = scalars_after(3);
  optim::AdamwArgs args;
};

TEMPLATE_TEST_CASE("adamw gives the CPU's bits for every dtype", "", (Types<float, void>), (Types<float, float>),
                   (Types<float, bf16>), (Types<float, fp16>), (Types<bf16, void>), (Types<bf16, float>),
                   (Types<bf16, bf16>), (Types<bf16, fp16>), (Types<fp16, void>), (Types<fp16, float>),
                   (Types<fp16, bf16>), (Types<fp16, fp16>), (Types<bf16, void, bf16, float>),
                   (Types<bf16, void, bf16, bf16>), (Types<float, void, bf16, float>), (Types<float, void, bf16, bf16>),
                   (Types<fp16, void, bf16, float>), (Types<fp16, void, bf16, bf16>)) {
  testing::every_way();
  auto const numbers = GENERATE(Numbers::ordinary, Numbers::any);
  Update<typename TestType::G, typename TestType::P, typename TestType::M, typename TestType::S> update{9001, numbers};
  update.args.rules.decoupled_decay = numbers == Numbers::ordinary;
  update.segments = {{0, 9001, 1, 1}};
  update.check();
}

TEST_CASE("adamw at every count and alignment") {
  testing::every_way();
  for (std::int64_t const count : {0, 1, 3, 4, 5, 8, 13, 1021, 1024, 2047, 2048, 2049, 4096, 4099}) {
    for (std::int64_t const shift : {0, 1, 2, 4, 7, 8}) {
      INFO(count << " elements, shifted by " << shift);
      Update<float, void> narrow{count, Numbers::ordinary};
      narrow.segments = {{0, count, 1, 1}};
      narrow.check(shift);
      Update<bf16, bf16> wide{count, Numbers::ordinary};
      wide.segments = {{0, count, 1, 1}};
      wide.check(shift, shift);
      wide.check(shift, shift + 1);  // no element at which all arrays are aligned
    }
  }
}

TEST_CASE("masters of bf16 at every count, alignment and place in the model") {
  testing::every_way();
  constexpr std::int64_t far = std::int64_t{1} << 40U;
  for (std::int64_t const count : {0, 1, 7, 8, 9, 2047, 2048, 4099}) {
    for (std::int64_t const shift : {0, 1, 4, 8}) {
      for (std::int64_t const element : {std::int64_t{0}, std::int64_t{3}, far + 8, far - 5}) {
        INFO(count << " elements, shifted by " << shift << ", from " << element);
        Update<bf16, void, bf16, bf16> update{count, Numbers::ordinary};
        update.segments = {{0, count, 1, 1, element}};
        update.check(shift);
        Update<bf16, void, bf16, float> wide{count, Numbers::ordinary};
        wide.segments = {{0, count / 3, 1, 1, element}, {count / 3, count, 2, 0, element + 99}};
        wide.check(shift);
      }
    }
  }
}

TEST_CASE("segments have factors of their own, and what lies between them is left alone") {
  testing::every_way();
  auto const decoupled = GENERATE(false, true);
  Update<bf16, bf16> update{20000, Numbers::ordinary};
  update.args.rules.decoupled_decay = decoupled;
  update.segments = {{0, 1, 2, 0},        {1, 7, 0.5F, 1},      {8, 8, 9, 9},
                     {8, 16, 0.25F, 3},   {19, 2100, 1, 0},     {2100, 2101, 4, 4},
                     {4096, 12289, 1, 1}, {12290, 12300, 0, 1}, {13000, 19999, 3, 2}};
  for (std::int64_t const shift : {0, 3}) {
    update.check(shift, shift);
  }
}

TEST_CASE("more segments than a launch takes") {
  testing::every_way();
  for (int const segment_count : {95, 96, 97, 300}) {
    INFO(segment_count << " segments");
    Update<float, fp16> update{std::int64_t{31} * segment_count, Numbers::ordinary};
    for (int k = 0; k < segment_count; ++k) {
      update.segments.push_back({std::int64_t{31} * k, std::int64_t{31} * k + 17 + k % 15,
                                 1 + 0.01F * static_cast<float>(k), static_cast<float>(k % 3)});
    }
    update.check();
  }
}

TEST_CASE("no segments, or only empty ones, are no update") {
  testing::every_way();
  Update<float, void> update{100, Numbers::ordinary};
  update.check();
  update.segments = {{0, 0, 1, 1}, {50, 50, 1, 1}};
  update.check();
}

TEST_CASE("a step that is skipped changes nothing") {
  testing::every_way();
  Update<bf16, bf16> update{5000, Numbers::any};
  update.segments = {{0, 5000, 1, 1}};
  update.scalars.skip = true;
  auto const before = update;
  update.check();
  update.run_here();
  CHECK(same_bits(update.master, before.master));
}

TEST_CASE("the scalars are read when the kernel runs, not when it is launched") {
  testing::every_way();
  Update<float, void> update{64, Numbers::ordinary};
  update.segments = {{0, 64, 1, 1}};
  OnMachine<float> const master{update.master}, m{update.m}, v{update.v}, gradient{update.gradient};
  OnMachine<optim::StepSums> const sums{{optim::StepSums{9, 2, 3, 0}}};
  OnMachine<optim::StepScalars> const scalars{{optim::StepScalars{}}};
  optim::StepRules rules;
  rules.schedule.base = 0.02F;
  update.args.master = master.data();
  update.args.m = m.data();
  update.args.v = v.data();
  update.args.gradient = gradient.data();
  update.args.segments = update.segments;
  update.args.scalars = scalars.data();
  for (int step = 0; step < 3; ++step) {
    CHECK(advance(machine().stream(), rules, sums.data(), scalars.data()) == cudaSuccess);
    CHECK(adamw(machine().stream(), update.args) == cudaSuccess);
  }
  auto expected = update;
  for (int step = 1; step <= 3; ++step) {
    expected.scalars = scalars_after(step);
    expected.run_here();
  }
  CHECK(testing::first_difference(master.values(), expected.master) == -1);
  CHECK(testing::first_difference(v.values(), expected.v) == -1);
}

TEST_CASE("adamw beyond 2^31 elements") {
  testing::every_way();
  constexpr std::int64_t far = (std::int64_t{1} << 33) + 3;
  Update<bf16, bf16> update{5000, Numbers::ordinary};
  OnMachine<float> const master{update.master, 3}, m{update.m, 3}, v{update.v, 3};
  OnMachine<bf16> const gradient{update.gradient, 3}, parameter{update.parameter, 3};
  OnMachine<optim::StepScalars> const scalars{{update.scalars}};
  auto args = update.args;
  args.master = master.data_before(far);
  args.m = m.data_before(far);
  args.v = v.data_before(far);
  args.gradient = gradient.data_before(far);
  args.parameter = parameter.data_before(far);
  args.count = far + 5000;
  std::vector<AdamwSegment> const segments{{far + 5, far + 4987, 1, 1}};
  args.segments = segments;
  args.scalars = scalars.data();
  CHECK(adamw(machine().stream(), args) == cudaSuccess);
  update.segments = {{5, 4987, 1, 1}};
  update.run_here();
  CHECK(testing::first_difference(master.values(), update.master) == -1);
  CHECK(testing::first_difference(parameter.values(), update.parameter) == -1);
}

}  // namespace
}  // namespace zeroth::cuda
