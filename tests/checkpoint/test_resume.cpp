// SPDX-License-Identifier: Apache-2.0
/// Training that was saved and goes on, at the same or at another stage, on as many or on other ranks.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "parity/stage_files.hpp"
#include "parity/train.hpp"
#include "saved.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/rules.hpp"
#include "support/sanitized.hpp"

namespace zeroth::testing {
namespace {

constexpr int before = 3;
constexpr int steps = 6;

/// Saves after step `at`, and waits for it where `waits`.
TrainOptions saving(std::filesystem::path const& folder, int at, int last, bool waits = true) {
  TrainOptions options;
  options.steps = last;
  options.after_step = [=](AnyEngine& engine, int step) {
    if (step == at) {
      auto saving = engine.save(folder);
      if (waits) {
        saving.wait();
      }
    }
  };
  return options;
}

TrainOptions resuming(std::filesystem::path const& from, int last, std::filesystem::path const& save_into = {}) {
  auto options = save_into.empty() ? TrainOptions{} : saving(save_into, last, last);
  options.steps = last;
  options.begin = [=](AnyEngine& engine) { return static_cast<int>(engine.restore(from).step); };
  return options;
}

/// Reports and weights of steps behind `before`.
std::vector<std::uint32_t> rest_of(Trained trained) {
  auto& reports = trained.reports;
  std::erase_if(reports, [](StepReport const& report) { return report.step <= before; });
  REQUIRE(reports.size() == steps - before);
  auto bits = bits_of(trained);
  return bits;
}

std::string stage_file(Types const& types, int stage, char const* optimizer = nullptr) {
  auto const& move = movements[stage];
  return optimizer == nullptr ? file(types, stage, 2, "every_micro_step", move)
                              : file(types, stage, 2, "every_micro_step", move, "", optimizer);
}

/// What `saved` and `restored` train together is what neither saved nor restored trains alone, in all states.
void check_resume(int world, std::string const& saved, std::string const& restored, float overflow_at = 0) {
  Folder const folder;
  auto straight_options = saving(folder / "straight", steps, steps);
  straight_options.evaluates = false;
  straight_options.overflow_at_step = overflow_at;
  auto const straight = train(world, restored, straight_options);
  auto first = saving(folder / "first", before, before);
  first.evaluates = false;
  first.overflow_at_step = overflow_at;
  train(world, saved, first);
  auto second = resuming(folder / "first", steps, folder / "second");
  second.evaluates = false;
  second.overflow_at_step = overflow_at;
  auto const resumed = train(world, restored, second);
  REQUIRE(rest_of(resumed) == rest_of(straight));
  REQUIRE(states_in(folder / "second/step_00000006") == states_in(folder / "straight/step_00000006"));
}

}  // namespace

TEST_CASE("a run that was saved at one stage goes on at any other as if it had not ended") {
  auto const types = GENERATE(from_range(std::begin(all_types), std::end(all_types)));
  for (int saved = 0; saved <= 3; ++saved) {
    for (int restored = 0; restored <= 3; ++restored) {
      INFO(fmt::format("{}, saved at stage {}, restored at {}", types.name, saved, restored));
      check_resume(2 + (saved + restored) % 2, stage_file(types, saved), stage_file(types, restored));
    }
  }
}

}  // namespace zeroth::testing
