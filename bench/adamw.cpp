/// AdamW against a loop over the same streams: the same reads and writes, one addition each.
/// bench_adamw [MILLIONS of elements, 64 [ROUNDS [all|fp32]]]
#include "zeroth/optim/adamw.hpp"

#include <array>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>

#include "adamw_variants.hpp"
#include "arguments.hpp"
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

nlohmann::json measure(bench::AdamwVariant const& variant, optim::AdamwArgs const& all, int rounds) {
  auto const args = bench::as(variant, all);
  auto const paired = bench::compare(
      rounds, [&] { optim::adamw(args); }, [&] { yardstick(args); });
  auto const bytes = bench::adamw_bytes(variant, args.count);
  auto const rate = [&](double seconds) { return static_cast<double>(bytes) * 1e-9 / seconds; };
  return {{"benchmark", "adamw"},
          {"gradient", name_of(variant.gradient)},
          {"parameter", variant.parameter_name()},
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
    std::memset(block->data(), bench::adamw_byte, static_cast<std::size_t>(block->bytes()));
  }
  optim::AdamwSegment const segment{0, count, 1, 1};
  auto const scalars = bench::adamw_scalars();
  auto const args =
      bench::adamw_args({memory[0]->data(), memory[1]->data(), memory[2]->data(), memory[3]->data(), memory[4]->data()},
                        count, {&segment, 1}, &scalars);
  auto const variants = std::span{bench::adamw_variants};
  for (auto const& variant : variants.first(all_variants ? variants.size() : 1)) {
    std::cout << measure(variant, args, rounds).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  zeroth::bench::Arguments arguments{argc, argv, "[MILLIONS [ROUNDS [all|fp32]]]"};
  auto const millions = arguments.whole("MILLIONS", 64);
  auto const rounds = static_cast<int>(arguments.whole("ROUNDS", 15));
  bool const all = arguments.one_of("which", {"all", "fp32"}, "all") == "all";
  arguments.end();
  return zeroth::run(millions << 20U, rounds, all);
}
