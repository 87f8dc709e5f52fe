// SPDX-License-Identifier: Apache-2.0
/// The real cuDNN builds plans for GPUs that are absent, from their properties. Nothing runs.
#include <fmt/format.h>

#include <string>

#include "gpu/cudnn_attention.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace gpt::gpu {
namespace {

/// What cuDNN knows of a GPU.
struct Properties {
  int sm, processors, shared_bytes, clock_khz, memory_khz, memory_bits, l2_bytes;
  char const* name;
};
Properties const gpus[] = {{80, 108, 166912, 1410000, 1593000, 5120, 40 << 20, "NVIDIA A100-SXM4-80GB"},
                           {90, 132, 232448, 1980000, 2619000, 5120, 50 << 20, "NVIDIA H100 80GB HBM3"},
                           {100, 148, 232448, 1965000, 3996000, 8192, 126 << 20, "NVIDIA B200"}};

/// As CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has them. cuDNN names every member that is missing.
std::string json_of(Properties const& gpu) {
  return fmt::format(
      R"({{"deviceVer": {}, "driverVer": 13000, "deviceName": "{}", "multiProcessorCount": {}, "smCountOrigin": 1,
        "maxSharedMemoryPerBlockOptin": {}, "smClockRateKHz": {}, "memClockRateKHz": {}, "memoryBusWidth": {},
        "l2CacheSize": {}, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "oversizedSharedMemoryPerBlock": 0,
        "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerSM": 2048, "pciDeviceId": 1, "isTccDriver": 0, "supportCoopLaunch": 1, "cudaDeviceId": 0,
        "totalGlobalMem": 80000000000}})",
      gpu.sm * 10, gpu.name, gpu.processors, gpu.shared_bytes, gpu.clock_khz, gpu.memory_khz, gpu.memory_bits,
      gpu.l2_bytes);
}

}  // namespace

TEST_CASE("cuDNN has deterministic plans for heads of every allowed width, on every GPU") {
  for (auto const& gpu : gpus) {
    for (std::int64_t const width : {8, 64, 72, 128}) {
      CudnnShape const shape{
          width == 72 ? zeroth::Dtype::fp16 : zeroth::Dtype::bf16, 2, {.count = 5, .width = width, .context = 512}};
      INFO(gpu.name << ", " << describe(shape));
      CHECK(plan_without_gpu(shape, gpu.sm, json_of(gpu)) > 0);
    }
  }
}

TEST_CASE("cuDNN has plans for GPT-2 of 1.5 billion parameters, whole and on five tensor ranks, and for odd contexts") {
  auto const& gpu = gpus[1];
  for (auto const& heads : {AttentionHeads{.count = 25, .width = 64, .context = 1024},
                            AttentionHeads{.count = 5, .width = 64, .context = 1024},
                            AttentionHeads{.count = 2, .width = 8, .context = 13}}) {
    CudnnShape const shape{zeroth::Dtype::bf16, 4, heads};
    INFO(describe(shape));
    auto const bytes = plan_without_gpu(shape, gpu.sm, json_of(gpu));
    auto const rows = (heads.context + 63) / 64 * 64, columns = (heads.context + 127) / 128 * 128;
    // The workspace of the deterministic backward has a number of 2 bytes per score.
    CHECK(bytes >= 4 * heads.count * rows * rows * 2);
    CHECK(bytes < 4 * heads.count * rows * columns * 2 + (8 << 20));
  }
}

TEST_CASE("a plan that cuDNN has not is refused with the shape and cuDNN's reason") {
  CudnnShape const shape{zeroth::Dtype::bf16, 2, {.count = 2, .width = 12, .context = 64}};
  CHECK_THAT(
      zeroth::testing::thrown<zeroth::SystemError>(
          [&] { return plan_without_gpu(shape, gpus[1].sm, json_of(gpus[1])); }),
      Catch::Contains("it has no deterministic plan for attention of bf16, 2 sequences of 64 tokens, 2 heads of 12 "
                      "channels; --attention own needs no cuDNN: ") &&
          Catch::Contains("multiple of 8"));
}

}  // namespace gpt::gpu
