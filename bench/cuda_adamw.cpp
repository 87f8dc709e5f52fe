// SPDX-License-Identifier: Apache-2.0
/// AdamW on a GPU against a copy from device to device: bytes read and written per second, on one stream.
/// bench_cuda_adamw [MILLIONS of elements, 256 [ROUNDS [SEGMENTS, 16]]]
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "adamw_variants.hpp"
#include "command_line.hpp"
#include "cuda_timing.hpp"
#include "device/cuda_launch.hpp"
#include "paired.hpp"

namespace zeroth {
namespace {

using bench::DeviceMemory;
using bench::expect;
using bench::Stopwatch;

struct Copy {
  void *to, *from;
  std::int64_t bytes;
};

nlohmann::json measure(Stopwatch& watch, bench::AdamwVariant const& variant, optim::UpdateArgs const& all,
                       Copy const& copy, int rounds) {
  auto const args = bench::as(variant, all);
  auto const moved = bench::update_bytes(variant, args.update->rule, args.count);
  std::vector<double> rates, copy_rates, ratios;
  for (int round = -1; round < rounds; ++round) {  // one warm-up round
    double const adamw =
        watch.seconds([&](cudaStream_t stream) { expect(cuda::update(stream, args), "cuda::update"); });
    double const copied = watch.seconds([&](cudaStream_t stream) {
      expect(cudaMemcpyAsync(copy.to, copy.from, static_cast<std::size_t>(copy.bytes), cudaMemcpyDefault, stream),
             "cudaMemcpyAsync");
    });
    if (round >= 0) {
      rates.push_back(static_cast<double>(moved) * 1e-9 / adamw);
      copy_rates.push_back(2 * static_cast<double>(copy.bytes) * 1e-9 / copied);
      ratios.push_back(rates.back() / copy_rates.back());
    }
  }
  return {{"benchmark", "cuda_adamw"},
          {"gradient", name_of(variant.gradient)},
          {"parameter", variant.parameter_name()},
          {"master", name_of(variant.master)},
          {"moments", name_of(variant.moments)},
          {"elements", args.count},
          {"segments", args.segments.size()},
          {"gb_per_s", bench::quantile(rates, 0.5)},
          {"copy_gb_per_s", bench::quantile(copy_rates, 0.5)},
          {"ratio", bench::quantile(ratios, 0.5)},
          {"ratio_quartiles", {bench::quantile(ratios, 0.25), bench::quantile(ratios, 0.75)}}};
}

void run(std::int64_t count, int rounds, int segment_count) {
  cudaDeviceProp properties{};
  expect(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  auto const byte = bench::adamw_byte;
  DeviceMemory const master{count * 4, byte}, m{count * 4, byte}, v{count * 4, byte};
  DeviceMemory const gradient{count * 4, byte}, parameter{count * 4, byte};
  auto const scalars = bench::adamw_scalars();
  DeviceMemory const their_scalars{sizeof(scalars), 0};
  expect(cudaMemcpy(their_scalars.data(), &scalars, sizeof(scalars), cudaMemcpyHostToDevice), "cudaMemcpy");
  std::vector<optim::Segment> segments;
  for (int k = 0; k < segment_count; ++k) {
    auto const begin = count * k / segment_count;
    segments.push_back({begin, count * (k + 1) / segment_count, 1, 1, begin});
  }
  auto const args = bench::adamw_args({master.data(), m.data(), v.data(), gradient.data(), parameter.data()}, count,
                                      segments, static_cast<optim::StepScalars const*>(their_scalars.data()));
  Stopwatch watch;
  constexpr double warm_s = 0.5;  // an idle GPU takes some tenths of a second to reach its clock rates
  for (double spent_s = 0; spent_s < warm_s;) {
    spent_s += watch.seconds([&](cudaStream_t stream) { expect(cuda::update(stream, args), "cuda::update"); });
  }
  for (auto const& variant : bench::adamw_variants) {
    auto line = measure(watch, variant, args, {gradient.data(), parameter.data(), count * 4}, rounds);
    line["device"] = properties.name;
    std::cout << line.dump() << std::endl;
  }
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"AdamW on a GPU against a copy from device to device"};
  std::int64_t millions = 256;
  int rounds = 15;
  int segments = 16;
  app.add_option("MILLIONS", millions, "of elements")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("SEGMENTS", segments, "of a launch")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  try {
    zeroth::run(millions << 20U, rounds, segments);
  } catch (std::exception const& error) {
    std::cerr << "bench_cuda_adamw: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
