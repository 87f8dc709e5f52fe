// SPDX-License-Identifier: Apache-2.0
/// Errors on a GPU end all ranks, and each reports the reason.
#include <fmt/format.h>

#include <set>
#include <string>
#include <thread>

#include "device/cuda_gpus.hpp"
#include "device/kernels.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda/fake_cuda.hpp"
#include "support/thrown.hpp"
#include "zeroth/adapters/cuda.hpp"
#include "zeroth/device/cuda.hpp"

namespace zeroth::testing {
namespace {

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// Keys of zero_optimization.
constexpr auto const* offloaded =
    R"(, "overlap_comm": true, "sub_group_size": 1, "offload_optimizer": {"device": "cpu"})";
/// Keys of zeroth.
constexpr auto const* updated_by_host = R"(, "offload_update": "host")";

/// Trains without checking values. Returns the exceptions of the ranks.
Outcome train_blindly(int world, int gpus, int stage, std::string const& zero = {}, std::string const& zeroth = {}) {
  auto const config = small_config(stage, {.zero = zero, .zeroth = zeroth});
  return run_job(
      world,
      [&](Job& job) {
        SmallModel const small;
        Engine<float> engine{job, small.model, config};
        for (int step = 0; step < 6; ++step) {
          for (auto micro : engine.micro_steps()) {
            forward(micro, small);
            static_cast<void>(micro.report_loss(1));
            for (auto u = small.units.size(); u-- > 0;) {
              auto const p = micro.backward(small.units[u]);
              static_cast<void>(p.grad(small.weights[u]).accumulator());
            }
          }
          static_cast<void>(engine.step());
        }
        engine.finish();
      },
      {}, [gpus](int rank) { return device::make_cuda_device(rank % gpus); });
}

}  // namespace

TEST_CASE("an allocation error names the category, and the free memory") {
  fake_cuda::reset({.bytes = 100'000});
  auto const device = device::make_cuda_device(0);
  auto const some = device->allocate(device::Category::parameters, 30'000);
  auto const why = thrown<SystemError>([&] { return device->allocate(device::Category::optimizer, 80'000); });
  CHECK(contains(why,
                 "cudaMalloc on cuda:0 refused 80000 bytes for optimizer: out of memory "
                 "(cudaErrorMemoryAllocation); 70000 of the GPU's 100000 bytes are free"));
  CHECK(device->ledger().live().total() == 30'000);
  CHECK(cudaGetLastError() == cudaSuccess);  // it is not mistaken for the error of a later launch
  auto const more = device->allocate(device::Category::optimizer, 60'000);  // the device is as good as before
  fake_cuda::refuse("cudaHostAlloc", cudaErrorMemoryAllocation);
  CHECK(contains(thrown<SystemError>([&] { return device->allocate_host(5000); }),
                 "cudaHostAlloc on cuda:0 refused 5000 bytes for memory that host and GPU share: out of memory"));
}

TEST_CASE("a failed allocation on one rank ends all ranks") {
  for (int after = 0; after < 5; ++after) {
    fake_cuda::reset();
    fake_cuda::refuse("cudaMalloc", cudaErrorMemoryAllocation, 5 + after);
    auto const outcome = train_blindly(2, 1, 3);
    auto const messages = messages_of(outcome);
    CAPTURE(messages);
    CHECK(outcome[0]);
    CHECK(outcome[1]);
    CHECK(contains(messages, "cudaMalloc on cuda:0 refused"));
    CHECK(contains(messages, "out of memory"));
    CHECK(fake_cuda::leftovers() == "");
  }
}

TEST_CASE("a failed allocation of pinned memory ends all ranks, naming rank, bytes and states") {
  for (int const world : {1, 2}) {
    int refused = 0;
    for (int after = 0; after < 12 * world; ++after) {
      fake_cuda::reset();
      fake_cuda::refuse("cudaHostAlloc", cudaErrorMemoryAllocation, after);
      auto const outcome = train_blindly(world, 1, 3, offloaded);
      auto const messages = messages_of(outcome);
      CAPTURE(messages, after);
      CHECK(static_cast<bool>(outcome.front()) == static_cast<bool>(outcome.back()));
      if (contains(messages, "for states that are offloaded to memory of the host")) {
        ++refused;
        CHECK(contains(messages, "[rank "));
        CHECK(contains(messages,
                       "cudaHostAlloc on cuda:0 refused 24576 bytes for states that are offloaded to memory of the "
                       "host, exp_avg, exp_avg_sq: out of memory (cudaErrorMemoryAllocation)"));
      }
      CHECK(fake_cuda::leftovers() == "");
    }
    CHECK((world > 1 || refused == 1));  // with two ranks it may be either rank's
  }
}

TEST_CASE("a refused copy of offloaded states ends all ranks, naming rank, bytes, state, unit and reason") {
  std::set<std::string> seen;
  for (int after = 0; after < 120; ++after) {
    fake_cuda::reset();
    fake_cuda::refuse("cudaMemcpyAsync", cudaErrorInvalidValue, after);
    auto const outcome = train_blindly(2, 1, after % 4, offloaded);
    auto const messages = messages_of(outcome);
    CAPTURE(messages, after);
    CHECK(static_cast<bool>(outcome[0]) == static_cast<bool>(outcome[1]));
    for (auto const* const done : {"read", "written"}) {
      for (auto const* const state : {"exp_avg", "exp_avg_sq"}) {
        auto const what = fmt::format(
            "the states that are offloaded to memory of the host cannot be {}: found in "
            "cudaMemcpyAsync on cuda:0: invalid argument (cudaErrorInvalidValue); bytes ",
            done);
        if (contains(messages, what) && contains(messages, fmt::format(": {} of unit \"block", state))) {
          seen.insert(fmt::format("{} {}", done, state));
          CHECK(contains(messages, "[rank "));
        }
      }
    }
    CHECK(fake_cuda::leftovers() == "");
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("a CUDA error during an update by the host ends all ranks, naming the call, or state and unit") {
  auto const* const call = GENERATE("cudaLaunchHostFunc", "cudaMemcpyAsync");
  std::set<std::string> seen;
  for (int after = 0; after < (call == std::string{"cudaMemcpyAsync"} ? 120 : 8); ++after) {
    fake_cuda::reset();
    fake_cuda::refuse(call, cudaErrorInvalidValue, after);
    auto const outcome = train_blindly(2, 1, after % 4, offloaded, updated_by_host);
    auto const messages = messages_of(outcome);
    CAPTURE(messages, after);
    CHECK(static_cast<bool>(outcome[0]) == static_cast<bool>(outcome[1]));
    auto const what = fmt::format("found in {} on cuda:0: invalid argument (cudaErrorInvalidValue)", call);
    CHECK((!outcome[0] || contains(messages, what)));
    for (auto const* const done : {"read", "written"}) {
      for (auto const* const state : {"gradients", "parameters"}) {
        auto const copy =
            fmt::format("the states that are offloaded to memory of the host cannot be {}: {}; bytes ", done, what);
        if (contains(messages, copy) && contains(messages, fmt::format(": {} of unit \"block", state))) {
          seen.insert(fmt::format("{} {}", done, state));
        }
      }
    }
    if (outcome[0] && contains(messages, "cudaLaunchHostFunc")) {
      seen.insert("update");
    }
    CHECK(fake_cuda::leftovers() == "");
  }
  using Seen = std::set<std::string>;
  CHECK(seen == (call == std::string{"cudaLaunchHostFunc"}
                     ? Seen{"update"}
                     : Seen{"read parameters", "written gradients", "written parameters"}));
}

TEST_CASE("work that fails while states are copied ends all ranks with its error") {
  auto const update = GENERATE(as<std::string>{}, "", updated_by_host);
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const after : {40, 80, 130}) {
      fake_cuda::reset();
      fake_cuda::fail_work(cudaErrorIllegalAddress, after);
      auto const outcome = train_blindly(3, 1, stage, offloaded, update);
      INFO(fmt::format("stage {}, after {}{}: {}", stage, after, update, messages_of(outcome)));
      CHECK(contains(messages_of(outcome), "an illegal memory access was encountered (cudaErrorIllegalAddress)"));
      CHECK((outcome[0] && outcome[1] && outcome[2]));
      CHECK(fake_cuda::leftovers() == "");
    }
  }
}

TEST_CASE("work that fails on the GPU ends all ranks with its error") {
  for (int const gpus : {1, 2}) {  // with two, one of them is healthy
    for (int stage = 0; stage <= 3; ++stage) {
      for (int const after : {30, 60, 100}) {
        fake_cuda::reset({.gpus = gpus});
        fake_cuda::fail_work(cudaErrorIllegalAddress, after);
        auto const outcome = train_blindly(4, gpus, stage);
        auto const why = "an illegal memory access was encountered (cudaErrorIllegalAddress)";
        CHECK(contains(messages_of(outcome), why));
        for (auto const& error : outcome) {
          auto const message = message_of(error);
          INFO(fmt::format("{} GPUs, stage {}, after {}: {}", gpus, stage, after, message));
          // When an error leaves a guard, the other ranks learn that this engine ended before the error is known.
          CHECK((contains(message, why) || contains(message, "the engine of rank")));
        }
        CHECK(fake_cuda::leftovers() == "");
      }
    }
  }
}

TEST_CASE("a CUDA error names its call, and fails the device") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const stream = device->make_stream("test", device::Overlap::on);
  auto const memory = device->allocate(device::Category::slots, 100);
  fake_cuda::refuse("cudaMemsetAsync", cudaErrorInvalidValue);
  CHECK(contains(thrown<SystemError>([&] { device->kernels().fill(*stream, memory->data(), 100, 1); }),
                 "cudaMemsetAsync on cuda:0: invalid argument (cudaErrorInvalidValue)"));
  device->kernels().fill(*stream, memory->data(), 100, 7);  // passed over
  auto const event = device->make_event();
  stream->record(*event);
  CHECK(contains(thrown<SystemError>([&] { stream->synchronize(); }), "cudaMemsetAsync"));
  CHECK(contains(thrown<SystemError>([&] { event->synchronize(); }), "cudaMemsetAsync"));
  CHECK(contains(thrown<SystemError>([&] { device->compute().wait(*event); }), "cudaMemsetAsync"));
  fake_cuda::refuse("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);  // a later call reports the first error
  CHECK(contains(thrown<SystemError>([&] { static_cast<void>(device->make_event()); }), "cudaMemsetAsync"));
}

TEST_CASE("an error of the caller's own work is reported as found in the call that returns it") {
  fake_cuda::reset();
  auto const device = device::make_cuda_device(0);
  auto const memory = device->allocate(device::Category::slots, 100);
  fake_cuda::fail_work(cudaErrorIllegalAddress);
  auto& stream = device->compute();
  REQUIRE(fake_cuda::enqueue(static_cast<cudaStream_t>(stream.native().native), [] {}) == cudaSuccess);
  auto const answer = [&] { return cudaStreamQuery(static_cast<cudaStream_t>(stream.native().native)); };
  while (answer() == cudaErrorNotReady) {
    std::this_thread::yield();
  }
  CHECK_THAT(
      thrown<SystemError>([&] { device->kernels().fill(stream, memory->data(), 100, 1); }),
      Catch::StartsWith("found in cudaMemsetAsync on cuda:0: an illegal memory access was encountered (cudaErrorIll"));
}

TEST_CASE("a kernel rejects memory that its GPU cannot reach") {
  fake_cuda::reset({.gpus = 2});
  float on_stack = 0;
  auto const other = device::make_cuda_device(1);
  auto const elsewhere = other->allocate(device::Category::slots, 100);
  for (void* const out_of_reach : {static_cast<void*>(&on_stack), static_cast<void*>(elsewhere->data())}) {
    auto const device = device::make_cuda_device(0);
    auto const memory = device->allocate(device::Category::slots, 100);
    auto const pinned = device->allocate_host(100);
    auto const widen = [&](void const* from) {
      device->kernels().convert(device->compute(), memory->data(), Dtype::fp32, from, Dtype::bf16, 2);
    };
    widen(pinned->data());
    CHECK(contains(thrown<SystemError>([&] { widen(out_of_reach); }), "convert on cuda:0: invalid argument"));
  }
}

TEST_CASE("events and kernels use their device's GPU, whichever GPU is current on the thread") {
  fake_cuda::reset({.gpus = 2});
  auto const device = device::make_cuda_device(0);
  auto const memory = device->allocate(device::Category::slots, 100);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  auto const event = device->make_event();
  int current = 0;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 1);
  device->compute().record(*event);
  device->compute().synchronize();
  CHECK(contains(thrown<SystemError>([&] {
                   device->kernels().convert(device->compute(), memory->data(), Dtype::fp32, memory->data() + 64,
                                             Dtype::bf16, 2);
                 }),
                 "convert on cuda:0: invalid resource handle"));
}

TEST_CASE("a missing GPU is rejected") {
  fake_cuda::reset({.gpus = 2});
  CHECK(device::cuda_device_count() == 2);
  CHECK(contains(thrown<ContractError>([] { return device::make_cuda_device(2); }),
                 "make_cuda_device(2): this process sees 2 GPUs"));
  CHECK(contains(thrown<ContractError>([] { return device::make_cuda_device(-1); }), "make_cuda_device(-1)"));
}

TEST_CASE("the description of GPUs has their compute capability, and the CUDA versions of driver and library") {
  auto const cuda = [](int code) { return fmt::format("{}.{}", code / 1000, code / 10 % 100); };
  fake_cuda::reset({.gpus = 2, .driver = CUDART_VERSION + 1000});
  CHECK(device::describe_gpus() ==
        fmt::format("2 of compute capability 9.0; the driver knows CUDA up to {}, the library was built with {}",
                    cuda(CUDART_VERSION + 1000), cuda(CUDART_VERSION)));
  fake_cuda::reset({.gpus = 0});
  CHECK(device::describe_gpus() == "none: " + device::why_no_gpu());
  fake_cuda::reset();
}

TEST_CASE("without a GPU the message has CUDA's reason, and the driver that is needed") {
  fake_cuda::reset();
  CHECK(device::why_no_gpu().empty());
  fake_cuda::reset({.driver = 11040});
  CHECK(device::cuda_device_count() == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  auto const why = fmt::format(
      "cudaGetDeviceCount: CUDA driver version is insufficient for CUDA runtime version (cudaErrorInsufficientDriver): "
      "the driver knows CUDA up to 11.4, and the library was built with CUDA {}.{}, which needs driver {} or newer",
      CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100, CUDART_VERSION < 13000 ? 525 : 580);
  CHECK(device::why_no_gpu() == why);
  CHECK(contains(thrown<ContractError>([] { return device::make_cuda_device(0); }),
                 "make_cuda_device(0): this process sees 0 GPUs: " + why));
  fake_cuda::reset({.driver = 0});
  CHECK(contains(device::why_no_gpu(), "no driver was found (libcuda.so.1)"));
  fake_cuda::reset({.gpus = 0});
  CHECK(contains(device::why_no_gpu(),
                 "no CUDA-capable device is detected (cudaErrorNoDevice): check nvidia-smi and CUDA_VISIBLE_DEVICES"));
  fake_cuda::reset();
}

TEST_CASE("a GPU for which the kernels were not built is rejected before any work is enqueued") {
  fake_cuda::reset({.capability = 75});
  CHECK(
      contains(thrown<SystemError>([] { return device::make_cuda_device(0); }),
               "make_cuda_device(0): cuda:0 has compute capability 7.5, and the library's kernels were built for 8.0, "
               "9.0: no kernel image is available for execution on the device (cudaErrorNoKernelImageForDevice); "
               "configure it with -DCMAKE_CUDA_ARCHITECTURES=75"));
  CHECK(fake_cuda::calls("launch") == 0);
  CHECK(fake_cuda::leftovers() == "");
  fake_cuda::reset();
}

TEST_CASE("the caller's stream must be set before the device's own is used, and must belong to a GPU") {
  fake_cuda::reset();
  auto const gpu = device::make_cuda_device(0);
  static_cast<void>(gpu->compute());
  CHECK(contains(thrown<ContractError>([&] { gpu->compute_on(stream_ref(nullptr)); }), "compute_on() after"));
  auto const cpu = device::make_cpu_device();
  CHECK(contains(thrown<ContractError>([&] { cpu->compute_on(stream_ref(nullptr)); }),
                 "device cpu computes on the calling thread"));
}

TEST_CASE("streams and events of other devices are refused") {
  fake_cuda::reset();
  auto const gpu = device::make_cuda_device(0);
  auto const cpu = device::make_cpu_device();
  auto const event = cpu->make_event();
  CHECK_THROWS_AS(gpu->compute().wait(*event), ContractError);
  CHECK_THROWS_AS(gpu->kernels().fill(cpu->compute(), nullptr, 0, 0), ContractError);
  CHECK_THROWS_AS(cpu->kernels().fill(gpu->compute(), nullptr, 0, 0), ContractError);
}

}  // namespace zeroth::testing
