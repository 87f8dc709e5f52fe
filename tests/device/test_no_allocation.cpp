// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <vector>

#include "device/kernels.hpp"
#include "device/rank_fold.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth::device {
namespace {

using test::allocation_count;

TEST_CASE("the counter detects an allocation") {
  std::int64_t const before = allocation_count();
  auto const one = std::make_unique<int>(1);
  CHECK(allocation_count() == before + 1);
}

TEST_CASE("recording, waiting, posting and every kernel allocate nothing") {
  constexpr std::int64_t count = 5000;
  auto const device = make_cpu_device();
  auto const stream = device->make_stream("gather", GENERATE(Overlap::on, Overlap::off));
  auto const event = device->make_event(), back = device->make_event();
  auto const memory = device->allocate(Category::scratch, 4 * 4 * count);
  auto* const floats = reinterpret_cast<float*>(memory->data());
  std::vector<float> block_sums(static_cast<std::size_t>(sum_blocks(count)));
  optim::StepSums sums;
  sums.weight = 1;
  optim::StepScalars scalars;
  std::vector<optim::Segment> const segments{{0, count, 1, 1}};
  optim::Update const adam;
  auto& kernels = device->kernels();

  std::int64_t const before = allocation_count();
  for (int step = 0; step < 300; ++step) {  // more than the queue holds
    stream->wait(*back);
    kernels.fill(*stream, floats, 4 * count, 0x3c);
    kernels.copy(*stream, floats + count, floats, 4 * count);
    kernels.convert(*stream, floats + 2 * count, Dtype::bf16, floats, Dtype::fp32, count);
    ReduceEpilogue epilogue;
    epilogue.source = floats;
    epilogue.destination = floats + count;
    epilogue.count = epilogue.sums_count = count;
    epilogue.accumulate = true;
    epilogue.block_sums = block_sums.data();
    kernels.reduce_epilogue(*stream, epilogue);
    kernels.collect(*stream, block_sums, &sums.sum_of_squares);
    kernels.advance(*stream, {}, &sums, &scalars);
    optim::UpdateArgs update;
    update.master = floats + count;
    update.states = {floats + 2 * count, floats + 3 * count};
    update.gradient = floats;
    update.count = count;
    update.segments = segments;
    update.update = &adam;
    update.scalars = &scalars;
    kernels.update(*stream, update);
    as_cpu(*stream).post([floats] {
      void* const buffers[] = {floats, floats + count};
      rank_fold(Reduce::sum, buffers, 2, buffers, 2, Dtype::fp16, 0, count);
    });
    stream->record(*event);
    device->compute().wait(*event);
    device->compute().record(*back);
  }
  stream->synchronize();
  std::int64_t const after = allocation_count();
  CHECK(after == before);
  CHECK(scalars.applied == 300);
}

}  // namespace
}  // namespace zeroth::device
