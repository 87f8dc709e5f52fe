// SPDX-License-Identifier: Apache-2.0
/// The width of kernels' accesses: whole packs of equally aligned arrays, and no single elements.
#include <functional>
#include <vector>

#include "cuda/packs.hpp"
#include "device/cuda_launch.hpp"
#include "machine.hpp"
#include "zeroth/optim/update.hpp"

namespace zeroth::cuda {
namespace {

using testing::machine;
using testing::OnMachine;

constexpr std::int64_t pack = 8;     // 16 bytes of 16-bit types
constexpr std::int64_t packs = 999;  // an odd number: the last tile is not full
constexpr std::int64_t all = packs * pack;

/// The accesses of the work that `enqueue` enqueues.
Accesses accesses_of(std::function<cudaError_t()> const& enqueue) {
  OnMachine<float> const behind{{0.0F}};
  static_cast<void>(behind.values());  // waits for earlier work
  accesses = {};
  REQUIRE(enqueue() == cudaSuccess);
  static_cast<void>(behind.values());
  return accesses;
}

Accesses accesses_of_update(std::int64_t shift, std::int64_t gradient_shift) {
  std::vector<float> const states(all);
  std::vector<bf16> const narrow(all);
  OnMachine<float> const master{states, shift}, m{states, shift}, v{states, shift};
  OnMachine<bf16> const gradient{narrow, gradient_shift}, parameter{narrow, shift};
  optim::StepScalars after_one_step;
  optim::advance({}, {9, 2, 3, 0}, after_one_step);
  OnMachine<optim::StepScalars> const scalars{{after_one_step}};
  std::vector<optim::Segment> const segments{{0, all, 1, 1}};
  optim::UpdateArgs args;
  args.master = master.data();
  optim::Update const adam;
  args.update = &adam;
  args.states = {m.data(), v.data()};
  args.gradient = gradient.data();
  args.gradient_dtype = Dtype::bf16;
  args.parameter = parameter.data();
  args.parameter_dtype = Dtype::bf16;
  args.segments = segments;
  args.scalars = scalars.data();
  args.count = all;
  return accesses_of([&] { return update(machine().stream(), args); });
}

TEST_CASE("an update moves aligned arrays in packs") {
  testing::every_way();
  constexpr std::int64_t arrays = 8;  // loads: gradient, master, m, v; stores: master, m, v, parameter
  auto const aligned = accesses_of_update(0, 0);
  CHECK(aligned.packs == packs * arrays);
  CHECK(aligned.singles == 0);
  auto const shifted =
      accesses_of_update(3, 3);  // aligned alike: 5 elements come before the first pack, 3 are left over
  CHECK(shifted.packs == (packs - 1) * arrays);
  CHECK(shifted.singles == pack * arrays);
  auto const apart = accesses_of_update(0, 1);  // never
  CHECK(apart.packs == 0);
  CHECK(apart.singles == all * arrays);
}

TEST_CASE("moves and sums take aligned arrays in packs") {
  testing::every_way();
  OnMachine<bf16> const narrow{std::vector<bf16>(all)}, other{std::vector<bf16>(all)};
  OnMachine<float> const wide{std::vector<float>(all)};
  auto const check = [](std::int64_t arrays, Accesses const& seen) {
    CHECK(seen.packs == packs * arrays);
    CHECK(seen.singles == 0);
  };
  check(2, accesses_of(
               [&] { return convert(machine().stream(), narrow.data(), Dtype::bf16, wide.data(), Dtype::fp32, all); }));
  check(3, accesses_of([&] {
          device::ReduceEpilogue args;
          args.source = narrow.data();
          args.source_dtype = Dtype::bf16;
          args.destination = wide.data();
          args.destination_dtype = Dtype::fp32;
          args.count = all;
          args.accumulate = true;
          return reduce_epilogue(machine().stream(), args);
        }));
  check(4, accesses_of([&] {
          RankFold args{};
          args.inputs[0] = narrow.data();
          args.inputs[1] = other.data();
          args.input_count = 2;
          args.outputs[0] = narrow.data();
          args.outputs[1] = other.data();
          args.output_count = 2;
          args.dtype = Dtype::bf16;
          args.count = all;
          return rank_fold(machine().stream(), args);
        }));
}

}  // namespace
}  // namespace zeroth::cuda
