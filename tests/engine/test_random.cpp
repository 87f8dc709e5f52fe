// SPDX-License-Identifier: Apache-2.0
/// The random numbers of passes depend on the seed, the step and the sample, regardless of the rank and the pass that
/// have the sample.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/small_model.hpp"
#include "parity/pipeline.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/log.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr int micro_batch = 2, micro_steps = 12, steps = 3;
constexpr std::uint32_t use = 5;

/// Counts how often each number was drawn.
class Drawn {
 public:
  /// Draws for both samples of a micro-batch. May be called from any thread.
  template <class Pass>
  void add(Pass const& pass) {
    std::scoped_lock const lock{mutex_};
    for (std::int64_t row = 0; row < micro_batch; ++row) {
      auto const random = pass.random(row, use);
      good_ = good_ && random.use == use;
      ++drawn_[{random.seed, random.step, random.sample}];
    }
  }
  struct Place {
    std::uint64_t seed;
    std::int64_t step, sample;
    friend auto operator<=>(Place const&, Place const&) = default;
  };
  /// Empty if numbers of different uses were mixed up.
  [[nodiscard]] std::map<Place, int> all() const { return good_ ? drawn_ : std::map<Place, int>{}; }

 private:
  std::mutex mutex_;
  std::map<Place, int> drawn_;
  bool good_ = true;
};

/// `times` for each sample, in steps from `first` to `end` - 1.
std::map<Drawn::Place, int> expected(std::uint64_t seed, std::int64_t first, std::int64_t end, int times) {
  std::map<Drawn::Place, int> all;
  for (std::int64_t step = first; step < end; ++step) {
    for (std::int64_t sample = 0; sample < micro_steps * micro_batch; ++sample) {
      all[{seed, step, step * micro_steps * micro_batch + sample}] = times;
    }
  }
  return all;
}

Config config_of(int ranks, int stage, std::string const& ours = "") {
  return small_config(stage, {.accumulation = micro_steps / ranks, .micro_batch = micro_batch, .zeroth = ours});
}

/// Draws in each forward and backward.
template <class Micro>
void draw(Micro& micro, SmallModel const& small, Drawn& drawn) {
  forward(micro, small);
  drawn.add(micro);
  float const seed = micro.report_loss(loss_of(micro.first_sample()));
  on_new_thread([&] { drawn.add(micro); });
  backward(micro, small, seed);
}

}  // namespace

TEST_CASE("micro-steps draw by step and sample, on any number of ranks and at every stage") {
  SmallModel const small;
  for (int const ranks : {1, 2, 3, 4}) {
    for (int const stage : {0, 1, 2, 3}) {
      INFO(fmt::format("{} ranks, stage {}", ranks, stage));
      Drawn drawn;
      CHECK(messages_of(run_job(ranks, [&](Job& job) {
              Engine<float> engine{job, small.model, config_of(ranks, stage)};
              train(engine, steps, [&](auto& micro, int) { draw(micro, small, drawn); });
            })) == "");
      CHECK(drawn.all() == expected(3, 0, steps, 2));
    }
  }
}

TEST_CASE("a micro-step that runs twice draws the same random numbers twice") {
  SmallModel const small;
  Drawn drawn;
  CHECK(messages_of(run_job(2, [&](Job& job) {
          Engine<float> engine{job, small.model, config_of(2, 1, R"(, "replay_every": 2)")};
          train(engine, steps, [&](auto& micro, int) { draw(micro, small, drawn); });
        })) == "");
  auto all = expected(3, 0, steps, 2);
  for (std::int64_t sample = 0; sample < 2 * micro_batch; ++sample) {  // samples of step 2's first micro-step
    all[{3, 1, micro_steps * micro_batch + sample}] = 4;
  }
  CHECK(drawn.all() == all);
}

TEST_CASE("actions of a pipeline draw the random numbers of one stage, in all stages and phases") {
  for (auto const* const schedule : {"1f1b", "zb_h1"}) {
    for (int const stages : {1, 2, 3}) {
      INFO(fmt::format("{} stages, {}", stages, schedule));
      constexpr int data = 2;
      auto const config = config_of(
          data, 2, fmt::format(R"(, "mesh": {{"pipeline": {}}}, "pipeline": {{"schedule": "{}"}})", stages, schedule));
      Drawn drawn;
      CHECK(messages_of(run_job(data * stages, [&](Job& job) {
              Chain const chain;
              Mesh mesh{job, config};
              Engine<float> engine{mesh, chain.model, config};
              for (int step = 0; step < steps; ++step) {
                std::vector<Tape> tapes(static_cast<std::size_t>(engine.in_flight()));
                for (auto work : engine.schedule()) {
                  drawn.add(work);
                  auto& tape = tapes[static_cast<std::size_t>(work.slot())];
                  work.phase() == Phase::forward            ? run_forward<float>(work, chain, tape, micro_batch, 1)
                  : work.phase() == Phase::backward_weights ? run_weights(work, chain, tape)
                                                            : run_backward<float>(work, chain, tape);
                }
                engine.step();
              }
              engine.finish();
            })) == "");
      int const phases = std::string_view{schedule} == "zb_h1" ? 3 : 2;
      CHECK(drawn.all() == expected(5, 0, steps, stages * phases));
    }
  }
}

TEST_CASE("a resumed run draws the random numbers of an uninterrupted one, also with another number of ranks") {
  SmallModel const small;
  Folder const folder;
  CHECK(messages_of(run_job(2, [&](Job& job) {
          Engine<float> engine{job, small.model, config_of(2, 1)};
          train(engine, small, 2);
          engine.save(folder.path()).wait();
        })) == "");
  for (int const ranks : {2, 3}) {
    Drawn drawn;
    CHECK(messages_of(run_job(ranks, [&](Job& job) {
            Engine<float> engine{job, small.model, config_of(ranks, 3)};
            static_cast<void>(engine.restore(folder.path()));
            train(engine, 1, [&](auto& micro, int) { draw(micro, small, drawn); });
          })) == "");
    CHECK(drawn.all() == expected(3, 2, 3, 2));
  }
}

TEST_CASE("resuming with another seed of the model logs that random numbers differ") {
  SmallModel const small;
  Folder const folder;
  auto const said = [&](SmallModel const& model, bool saves) {
    Log const log;
    CHECK(messages_of(run_job(2, [&](Job& job) {
            Engine<float> engine{job, model.model, config_of(2, 1)};
            if (saves) {
              train(engine, model, 1);
              engine.save(folder.path()).wait();
            } else {
              static_cast<void>(engine.restore(folder.path()));
            }
          })) == "");
    return log.count("the model's seed is 8, but was 3 when ") + 10 * log.count("the model's seed");
  };
  CHECK(said(small, true) == 0);
  CHECK(said(small, false) == 0);
  CHECK(said(SmallModel{300, 8}, false) == 11);
}

TEST_CASE("a row outside of the micro-batch is rejected") {
  SmallModel const small;
  for (std::int64_t const row : {-1, 2}) {
    auto const outcome = run_job(1, [&](Job& job) {
      AnyEngine engine{job, small.model, config_of(1, 0)};
      for (auto micro : engine.micro_steps()) {
        static_cast<void>(micro.random(row, 0));
      }
    });
    CHECK_THAT(messages_of(outcome), Contains(fmt::format("random(): row {} of a micro-batch; allowed: 0 to 1", row)));
  }
}

}  // namespace zeroth::testing
