/// AdamW against a loop over the same streams: the same reads and writes, one addition each.
/// bench_adamw [elements in millions, 64] [rounds, 15] [all|fp32]
#include "zeroth/optim/adamw.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

template <class G, class P, class M = float, class S = float>
struct Yardstick {
  M* master;
  S *m, *v;
  G const* gradient;
  P* parameter;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      float const g = to_float(gradient[i]);
      add(m[i], g);
      add(v[i], g);
      add(master[i], g);
      if constexpr (Element<P>) {
        parameter[i] = from_float<P>(master[i]);
      }
    }
  }
  template <class T>
  ZEROTH_INLINE static void add(T& value, float summand) {
    value = from_float<T>(to_float(value) + summand);
  }
};

template <class G, class P, class M = float, class S = float>
void run_yardstick(optim::AdamwArgs const& args) {
  with_best_isa(Yardstick<G, P, M, S>{static_cast<M*>(args.master), static_cast<S*>(args.m), static_cast<S*>(args.v),
                                      static_cast<G const*>(args.gradient), static_cast<P*>(args.parameter),
                                      args.count});
}

void yardstick(optim::AdamwArgs const& args) {
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.master_dtype == Dtype::bf16) {
      return args.moments_dtype == Dtype::bf16 ? run_yardstick<G, void, bf16, bf16>(args)
                                               : run_yardstick<G, void, bf16, float>(args);
    }
    if (args.parameter == nullptr) {
      return run_yardstick<G, void>(args);
    }
    with_element(args.parameter_dtype, [&]<class P>(std::type_identity<P>) { run_yardstick<G, P>(args); });
  });
}

struct Variant {
  Dtype gradient, parameter;
  bool writes_parameter;
  Dtype master = Dtype::fp32, moments = Dtype::fp32;
};

constexpr std::array variants{
    Variant{Dtype::fp32, Dtype::fp32, false},
    Variant{Dtype::fp32, Dtype::bf16, true},
    Variant{Dtype::bf16, Dtype::bf16, true},
    Variant{Dtype::fp32, Dtype::fp16, true},
    Variant{Dtype::fp16, Dtype::fp16, true},
    Variant{Dtype::bf16, Dtype::fp32, false, Dtype::bf16, Dtype::fp32},
    Variant{Dtype::bf16, Dtype::fp32, false, Dtype::bf16, Dtype::bf16},
};

nlohmann::json measure(Variant const& variant, optim::AdamwArgs args, int rounds) {
  args.gradient_dtype = variant.gradient;
  args.parameter_dtype = variant.parameter;
  args.parameter = variant.writes_parameter ? args.parameter : nullptr;
  args.master_dtype = variant.master;
  args.moments_dtype = variant.moments;
  auto const paired = bench::compare(
      rounds, [&] { optim::adamw(args); }, [&] { yardstick(args); });
  auto const states = bytes_of(variant.master) + 2 * bytes_of(variant.moments);
  auto const bytes = args.count * (2 * states + bytes_of(variant.gradient) +
                                   (variant.writes_parameter ? bytes_of(variant.parameter) : 0));
  auto const rate = [&](double seconds) { return static_cast<double>(bytes) * 1e-9 / seconds; };
  return {{"benchmark", "adamw"},
          {"gradient", name_of(variant.gradient)},
          {"parameter", variant.writes_parameter ? name_of(variant.parameter) : "none"},
          {"master", name_of(variant.master)},
          {"moments", name_of(variant.moments)},
          {"elements", args.count},
          {"gb_per_s", rate(paired.subject_seconds)},
          {"yardstick_gb_per_s", rate(paired.yardstick_seconds)},
          {"ratio", paired.ratio},
          {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}};
}

int run(std::int64_t count, int rounds, bool all_variants) {
  auto const device = device::make_cpu_device();
  std::array<std::unique_ptr<device::Memory>, 5> memory;
  for (auto& block : memory) {
    block = device->allocate(device::Category::scratch, count * 4);
    std::memset(block->data(), 0x3c, static_cast<std::size_t>(block->bytes()));  // about 0.01, in fp16 1
  }
  auto const floats = [&](std::size_t k) { return reinterpret_cast<float*>(memory[k]->data()); };
  optim::AdamwSegment const segment{0, count, 1, 1};
  optim::StepScalars scalars;
  scalars.gradient_scale = 0.5F;
  scalars.learning_rate = 1e-3F;
  optim::AdamwArgs args;
  args.master = floats(0);
  args.m = floats(1);
  args.v = floats(2);
  args.gradient = memory[3]->data();
  args.parameter = memory[4]->data();
  args.count = count;
  args.segments = {&segment, 1};
  args.rules.weight_decay = 0.01F;
  args.scalars = &scalars;
  for (auto const& variant : std::span{variants}.first(all_variants ? variants.size() : 1)) {
    std::cout << measure(variant, args, rounds).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  std::int64_t const millions = argc > 1 ? std::atoll(argv[1]) : 64;
  int const rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  std::string const which = argc > 3 ? argv[3] : "all";
  if (millions < 1 || rounds < 1 || (which != "all" && which != "fp32")) {
    std::cerr << "bench_adamw [elements in millions, 64] [rounds, 15] [all|fp32]\n";
    return 2;
  }
  return zeroth::run(millions << 20, rounds, which == "all");
}
