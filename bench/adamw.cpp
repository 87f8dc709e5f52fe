// SPDX-License-Identifier: Apache-2.0
/// Compares updates with a loop over the same streams: the same reads and writes, with one addition per element. AdamW
/// in all dtypes, or every rule in fp32. LAMB is compared with AdamW.
/// bench_adamw [MILLIONS of elements, 64 [ROUNDS [all|fp32|rules]]]
#include "zeroth/optim/update.hpp"

#include <array>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "adamw_variants.hpp"
#include "command_line.hpp"
#include "core/dispatch.hpp"
#include "core/isa.hpp"
#include "device/kernels.hpp"
#include "device/moment_loops.hpp"
#include "paired.hpp"
#include "zeroth/device/cpu.hpp"

namespace zeroth {
namespace {

template <class G, class P, class M = float, class S = float, int state_count = 2>
struct Yardstick {
  M* master;
  S *first, *second;
  G const* gradient;
  P* parameter;
  std::int64_t count;

  ZEROTH_INLINE void operator()() const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      float const g = to_float(gradient[i]);
      if constexpr (state_count > 0) {
        add(first[i], g);
      }
      if constexpr (state_count > 1) {
        add(second[i], g);
      }
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

template <class G, class P, class M = float, class S = float, int state_count = 2>
void run_yardstick(optim::UpdateArgs const& args) {
  with_best_isa(Yardstick<G, P, M, S, state_count>{
      static_cast<M*>(args.master), static_cast<S*>(args.states[0]), static_cast<S*>(args.states[1]),
      static_cast<G const*>(args.gradient), static_cast<P*>(args.parameter), args.count});
}

void yardstick(optim::UpdateArgs const& args) {
  switch (optim::state_count(args.update->rule)) {  // rules other than AdamW are measured in fp32 only
    case 0: return run_yardstick<float, void, float, float, 0>(args);
    case 1: return run_yardstick<float, void, float, float, 1>(args);
    default: break;
  }
  with_element(args.gradient_dtype, [&]<class G>(std::type_identity<G>) {
    if (args.master_dtype == Dtype::bf16) {
      return args.states_dtype == Dtype::bf16 ? run_yardstick<G, void, bf16, bf16>(args)
                                              : run_yardstick<G, void, bf16, float>(args);
    }
    if (args.parameter == nullptr) {
      return run_yardstick<G, void>(args);
    }
    with_element(args.parameter_dtype, [&]<class P>(std::type_identity<P>) { run_yardstick<G, P>(args); });
  });
}

nlohmann::json measure(bench::AdamwVariant const& variant, optim::UpdateArgs const& all, int rounds) {
  auto const args = bench::as(variant, all);
  auto const paired = bench::compare(
      rounds, [&] { optim::update(args); }, [&] { yardstick(args); });
  auto const& rule = args.update->rule;
  auto const bytes = bench::update_bytes(variant, rule, args.count);
  auto const rate = [&](double seconds) { return static_cast<double>(bytes) * 1e-9 / seconds; };
  return {{"benchmark", "adamw"},
          {"rule", optim::name_of(rule)},
          {"states", optim::state_count(rule)},
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

/// Compares LAMB's two passes with AdamW's one, without the sums over ranks.
nlohmann::json measure_lamb(optim::UpdateArgs const& adamw, int rounds) {
  optim::Update const lamb{optim::Lamb{.weight_decay = 0.01F}};
  auto args = adamw;
  args.update = &lamb;
  std::vector<float> squares(static_cast<std::size_t>(2 * device::sum_blocks(args.count)));
  device::MoveMoments const first{args, squares.data(), squares.data() + squares.size() / 2};
  auto const paired = bench::compare(
      rounds,
      [&] {
        device::move_moments(first);
        optim::update(args);
      },
      [&] { optim::update(adamw); });
  return {{"benchmark", "lamb"},
          {"elements", args.count},
          {"ms", 1e3 * paired.subject_seconds},
          {"adamw_ms", 1e3 * paired.yardstick_seconds},
          {"over_adamw", 1 / paired.ratio},
          {"over_adamw_quartiles", {1 / paired.ratio_high, 1 / paired.ratio_low}}};
}

int run(std::int64_t count, int rounds, std::string const& which) {
  auto const device = device::make_cpu_device();
  std::array<std::unique_ptr<device::Memory>, 5> memory;
  // The distance is not a power of two: an AMD EPYC reads such streams at a third of its rate, and models rarely have
  // them.
  std::int64_t apart = 0;
  for (auto& block : memory) {
    block = device->allocate(device::Category::scratch, count * 4 + (apart += 5 * 4096 + 192));
    std::memset(block->data(), bench::adamw_byte, static_cast<std::size_t>(block->bytes()));
  }
  optim::Segment const segment{0, count, 1, 1};
  auto const scalars = bench::adamw_scalars();
  auto const args =
      bench::adamw_args({memory[0]->data(), memory[1]->data(), memory[2]->data(), memory[3]->data(), memory[4]->data()},
                        count, {&segment, 1}, &scalars);
  auto const variants = std::span{bench::adamw_variants};
  for (auto const& update : bench::updates) {
    if (which == "rules") {
      auto of_rule = args;
      of_rule.update = &update;
      std::cout << measure(variants.front(), of_rule, rounds).dump() << std::endl;
    }
  }
  if (which == "rules") {
    std::cout << measure_lamb(args, rounds).dump() << std::endl;
  }
  for (auto const& variant : variants.first(which == "all" ? variants.size() : which == "fp32" ? 1 : 0)) {
    std::cout << measure(variant, args, rounds).dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"Updates against a loop over the same streams"};
  std::int64_t millions = 64;
  int rounds = 15;
  std::string variants = "all";
  app.add_option("MILLIONS", millions, "of elements")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("WHICH", variants, "AdamW in all dtypes or in fp32, or every rule in fp32")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "fp32", "rules"}));
  CLI11_PARSE(app, argc, argv);
  return zeroth::run(millions << 20U, rounds, variants);
}
