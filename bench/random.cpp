// SPDX-License-Identifier: Apache-2.0
/// Compares the numbers and masks of zeroth::Random on one thread, by each instruction set of this machine, with as
/// many sequential words of std::mt19937, the generator of PyTorch on the CPU.
/// bench_random [VALUES, 4096 at a call [ROUNDS]]
#include "zeroth/core/random.hpp"

#include <cstddef>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "core/isa_choice.hpp"
#include "paired.hpp"

namespace zeroth {
namespace {

constexpr int calls = 4096;  // per measurement
constexpr float rate = 0.1F;

template <class Subject, class Yardstick>
void report(std::string const& what, std::size_t values, int rounds, Subject const& subject,
            Yardstick const& yardstick) {
  auto const paired = bench::compare(rounds, subject, yardstick);
  nlohmann::json const line{{"benchmark", "random"},
                            {"case", what},
                            {"values", values},
                            {"values_per_second", calls * static_cast<double>(values) / paired.subject_seconds},
                            {"ratio_to_mt19937", paired.ratio},
                            {"ratio_quartiles", {paired.ratio_low, paired.ratio_high}}};
  std::cout << line.dump() << std::endl;
}

void run(std::size_t count, int rounds) {
  std::vector<float> numbers(count);
  std::vector<std::byte> mask(count);
  std::mt19937 engine{1};
  Random random{.seed = 1};
  for (auto const& [isa, name] : {std::pair{Isa::plain, "plain"}, {Isa::avx2, "AVX2"}, {Isa::avx512, "AVX-512"}}) {
    if (isa > best_isa()) {
      continue;
    }
    choose_isa(isa);
    report(
        std::string{"uniform, "} + name, count, rounds,
        [&] {
          for (random.sample = 0; random.sample < calls; ++random.sample) {
            random.uniform(0, numbers);
          }
        },
        [&] {
          for (int call = 0; call < calls; ++call) {
            for (auto& number : numbers) {
              number = Random::to_uniform(static_cast<std::uint32_t>(engine()));
            }
          }
        });
    report(
        std::string{"keep, "} + name, count, rounds,
        [&] {
          for (random.sample = 0; random.sample < calls; ++random.sample) {
            random.keep(0, rate, mask);
          }
        },
        [&] {
          for (int call = 0; call < calls; ++call) {
            for (auto& each : mask) {
              each = static_cast<std::byte>(static_cast<std::uint32_t>(engine()) >= Random::smallest_kept(rate));
            }
          }
        });
  }
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  CLI::App app{"Numbers and masks of Random against those of std::mt19937"};
  int values = 4096, rounds = 15;
  app.add_option("VALUES", values, "of one call")->capture_default_str()->check(zeroth::bench::count);
  app.add_option("ROUNDS", rounds, "that are measured")->capture_default_str()->check(zeroth::bench::count);
  CLI11_PARSE(app, argc, argv);
  zeroth::run(static_cast<std::size_t>(values), rounds);
}
