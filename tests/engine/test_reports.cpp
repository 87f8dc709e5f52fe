// SPDX-License-Identifier: Apache-2.0
/// The report of a step: when it comes, and whether it is correct.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "engine/reports.hpp"
#include "support/folder.hpp"
#include "zeroth/optim/learning_rate_schedule.hpp"

namespace zeroth::testing {

TEST_CASE("a loss in device memory is reported like one that the host knows") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const steps = [&](bool on_device) {
      return run(2, small_config(stage),
                 [&](Job&, Engine<float>& engine, SmallModel const& small) {
                   Seen seen;
                   std::vector<float> losses(2);
                   for (int step = 0; step < 4; ++step) {
                     std::size_t micro_step = 0;
                     for (auto micro : engine.micro_steps()) {
                       float& loss = losses[micro_step++];
                       forward(micro, small);
                       loss = loss_of(micro.first_sample());
                       LossOptions const options{.weight = micro_step == 1 ? 0.5F : 1.0F};
                       float const seed =
                           on_device ? micro.report_loss(DeviceLoss{&loss}, options) : micro.report_loss(loss, options);
                       backward(micro, small, seed);
                     }
                     if (auto const report = engine.step()) {
                       seen.reports.push_back(*report);
                     }
                   }
                   seen.reports.push_back(*engine.finish());
                   return seen;
                 })
          .front()
          .reports;
    };
    auto const host = steps(false);
    auto const device = steps(true);
    REQUIRE(host.size() == 4);
    REQUIRE(device.size() == 4);
    for (std::size_t i = 0; i < host.size(); ++i) {
      CHECK(device[i].loss == host[i].loss);
      CHECK(device[i].grad_norm == host[i].grad_norm);
    }
  }
}

TEST_CASE("weights by tokens make the loss and the gradients those of a mean over all tokens") {
  struct Batch {
    float mean, tokens;
  };
  constexpr Batch batches[] = {{2, 6}, {4, 2}};
  int const stage = GENERATE(0, 2, 3);
  int const world = GENERATE(1, 2);  // two micro-steps of one rank, or one of each of two
  auto const step_of = [&](bool by_tokens) {
    auto const config =
        small_config(stage, {.accumulation = 2 / world, .micro_batch = 1}).with(R"({"gradient_clipping": 0,
                                      "optimizer": {"type": "SGD", "params": {"lr": 1, "weight_decay": 0}}})");
    return run(world, config,
               [&](Job&, Engine<float>& engine, SmallModel const& small) {
                 auto before = read_weights(engine, small);
                 for (auto micro : engine.micro_steps()) {
                   auto const& [mean, tokens] = batches[micro.first_sample()];
                   forward(micro, small);
                   float const seed = micro.report_loss(mean, {.weight = by_tokens ? tokens / 6 : 1});
                   for (auto u = small.units.size(); u-- > 0;) {
                     auto const p = micro.backward(small.units[u]);
                     auto gradient = p.grad(small.weights[u]);  // of the mean loss, which contains the parameter
                     for (std::int64_t i = 0; i < p[small.weights[u]].count(); ++i) {
                       gradient.data()[i] = (gradient.beta() == 0 ? 0 : gradient.data()[i]) + seed * mean;
                     }
                   }
                 }
                 engine.step();
                 Seen seen{{engine.finish().value()}, read_weights(engine, small)};
                 std::ranges::transform(before, seen.weights, seen.weights.begin(), std::minus{});
                 return seen;
               })
        .front();
  };
  auto const tokens = step_of(true), means = step_of(false);
  CHECK(tokens.reports[0].loss == Approx(2.5));  // (6 * 2 + 2 * 4) / 8
  CHECK(means.reports[0].loss == Approx(3));
  CHECK(tokens.weights.front() == Approx(2.5).epsilon(1e-4));
  CHECK(means.weights.front() == Approx(3).epsilon(1e-4));
}

TEST_CASE("a loss of weight 0 is ignored, whatever its value") {
  enum class Said { by_host, by_device, in_evaluation };
  for (auto const said : {Said::by_host, Said::by_device, Said::in_evaluation}) {
    std::vector<float> losses(2);
    run(2, small_config(0, {.accumulation = 1}), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      bool const counts = job.rank() == 0;
      float const loss = counts ? 1.5F : std::nanf("");
      LossOptions const options{.weight = counts ? 1.0F : 0.0F};
      auto& seen = losses[static_cast<std::size_t>(job.rank())];
      if (said == Said::in_evaluation) {
        auto const evaluation = engine.evaluation(1);
        for (auto pass : evaluation) {
          forward(pass, small);
          pass.report_loss(loss, options);
        }
        seen = evaluation.mean_loss();
        return Seen{};
      }
      for (auto micro : engine.micro_steps()) {
        forward(micro, small);
        backward(
            micro, small,
            said == Said::by_host ? micro.report_loss(loss, options) : micro.report_loss(DeviceLoss{&loss}, options));
      }
      engine.step();
      seen = engine.finish().value().loss;
      return Seen{};
    });
    INFO("case " << static_cast<int>(said));
    CHECK(losses == std::vector<float>{1.5F, 1.5F});
  }
}

TEST_CASE("step() returns the report of the step before, finish() the last, and nothing twice") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::int64_t> numbers;
    run(2, small_config(stage), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      auto const note = [&](std::optional<StepReport> const& report) {
        if (job.rank() == 0) {
          numbers.push_back(report ? report->step : 0);
        }
      };
      note(engine.finish());
      for (int step = 0; step < 3; ++step) {
        all_micro_steps(engine, small);
        note(engine.step());
      }
      note(engine.finish());
      note(engine.finish());
      all_micro_steps(engine, small);
      note(engine.step());
      note(engine.finish());
      return Seen{};
    });
    INFO("stage " << stage);
    CHECK(numbers == std::vector<std::int64_t>{0, 0, 1, 2, 3, 0, 0, 4});
  }
}

TEST_CASE("before a step the engine knows its first sample, also after steps of other sizes are restored") {
  Folder const folder;
  auto const config_of = [](int micro_batch) {
    return small_config(2, {.accumulation = 2, .micro_batch = micro_batch});
  };
  auto const outcome = run_job(2, [&](Job& job) {
    std::int64_t expected = 0;
    auto const train = [&](Engine<float>& engine, SmallModel const& small, std::int64_t micro_batch) {
      for (int step = 0; step < 3; ++step) {
        expect(engine.first_sample() == expected, "the step's first sample");
        auto mine = expected + engine.place() * micro_batch;
        for (auto micro : engine.micro_steps()) {
          expect(micro.first_sample() == mine, "the micro-step's first sample");
          expect(engine.first_sample() == expected, "the same during the step");
          mine += 2 * micro_batch;
          micro_step(micro, small);
        }
        static_cast<void>(engine.step());
        expected += 4 * micro_batch;
      }
    };
    SmallModel const small;
    {
      Engine<float> engine{job, small.model, config_of(1)};
      train(engine, small, 1);
      static_cast<void>(engine.save(folder.path()));
      static_cast<void>(engine.finish());
    }
    Engine<float> engine{job, small.model, config_of(3)};
    expect(engine.restore_latest(folder.path()).has_value(), "there is a checkpoint");
    train(engine, small, 3);
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("the loss is the weighted mean over ranks and micro-steps") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const world : {1, 2, 3}) {
      auto const weight_of = [](int rank, int micro) { return 0.25F * static_cast<float>(1 + rank + 2 * micro); };
      auto const seen = run(world, small_config(stage), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        Seen result;
        for (int step = 0; step < 2; ++step) {
          int micro_index = 0;
          for (auto micro : engine.micro_steps()) {
            micro_step(micro, small, weight_of(job.rank(), micro_index++));
          }
          engine.step();
        }
        result.reports.push_back(engine.finish().value());
        return result;
      });
      double sum = 0;
      double weights = 0;
      for (int micro = 0; micro < 2; ++micro) {
        for (int rank = 0; rank < world; ++rank) {
          auto const sample = ((2 + micro) * world + rank) * 2;  // second step, micro-batches of two
          sum += static_cast<double>(weight_of(rank, micro)) * static_cast<double>(loss_of(sample));
          weights += static_cast<double>(weight_of(rank, micro));
        }
      }
      INFO(fmt::format("stage {}, {} ranks", stage, world));
      for (auto const& each : seen) {
        CHECK(each.reports[0].loss == static_cast<float>(sum / weights));
      }
    }
  }
}

TEST_CASE("the seed is the weight times the loss scale, times the prescale of an fp16 sum over ranks") {
  auto const seed_of = [](int world, std::string const& more, auto types) {
    using T = typename decltype(types)::Compute;
    float seed = 0;
    auto const outcome = run_job(world, [&](Job& job) {
      SmallModel const small;
      Engine<T> engine{job, small.model, small_config(1, {.accumulation = 1, .more = more})};
      for (auto micro : engine.micro_steps()) {
        forward(micro, small);
        float const mine = micro.report_loss(1, {.weight = 0.5F});
        if (job.rank() == 0) {
          seed = mine;
        }
        backward(micro, small, mine);
      }
      engine.step();
      engine.finish();
    });
    REQUIRE(messages_of(outcome) == "");
    return seed;
  };
  CHECK(seed_of(3, "", Precision<float, float>{}) == 0.5F);
  CHECK(seed_of(3, R"(, "bf16": {"enabled": true})", Precision<bf16, bf16>{}) == 0.5F);
  auto const fp16_keys = R"(, "fp16": {"enabled": true, "loss_scale": 1024})";
  CHECK(seed_of(1, fp16_keys, Precision<fp16, fp16>{}) == 512);
  CHECK(seed_of(2, fp16_keys, Precision<fp16, fp16>{}) == 256);
  CHECK(seed_of(3, fp16_keys, Precision<fp16, fp16>{}) == 128);  // 1 / 2^ceil(log2 3)
  CHECK(seed_of(3, R"(, "fp16": {"enabled": true, "loss_scale": 1024}, "communication_data_type": "fp32")",
                Precision<fp16, fp16>{}) == 512);
}

TEST_CASE("many small micro-steps train like one large micro-step") {
  auto const train_with = [](int stage, int micro_batch, int accumulation) {
    auto const config = small_config(stage, {.accumulation = accumulation, .micro_batch = micro_batch});
    return run(2, config,
               [&](Job&, Engine<float>& engine, SmallModel const& small) {
                 auto const reports = train(engine, 3, [&](auto& micro, int) {
                   // Means over the samples of this micro-batch. The world's samples of a step are the same for any
                   // division among ranks and micro-steps.
                   auto const batch = engine.micro_batch();
                   forward(micro, small);
                   float loss = 0;
                   for (std::int64_t i = 0; i < batch; ++i) {
                     loss += loss_of(micro.first_sample() + i);
                   }
                   float const seed = micro.report_loss(loss / static_cast<float>(batch)) / static_cast<float>(batch);
                   for (auto u = small.units.size(); u-- > 0;) {
                     auto const p = micro.backward(small.units[u]);
                     for (std::int64_t i = 0; i < batch; ++i) {
                       contribute(p, small.weights[u], micro.first_sample() + i, seed);
                     }
                   }
                 });
                 return Seen{.reports = reports, .weights = read_weights(engine, small)};
               })
        .front();
  };
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    auto const one = train_with(stage, 12, 1);
    for (int const pieces : {2, 3, 6, 12}) {
      auto const many = train_with(stage, 12 / pieces, pieces);
      for (std::size_t step = 0; step < 3; ++step) {
        CHECK(many.reports[step].loss == Approx(one.reports[step].loss).epsilon(1e-5));
        CHECK(many.reports[step].grad_norm == Approx(one.reports[step].grad_norm).epsilon(1e-5));
      }
      float difference = 0;
      for (std::size_t i = 0; i < one.weights.size(); ++i) {
        difference = std::max(difference, std::abs(one.weights[i] - many.weights[i]));
      }
      CHECK(difference < 1e-4F);
    }
  }
}

TEST_CASE("a step without any weight updates nothing, and advances nothing") {
  auto const more = R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 0.5}})";
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const skips : {false, true}) {
      auto const seen =
          run(2, small_config(stage, {.more = more}), [&](Job&, Engine<float>& engine, SmallModel const& small) {
            Seen result;
            for (int step = 1; step <= 4; ++step) {
              for (auto micro : engine.micro_steps()) {
                if (step == 3 && skips) {
                  micro.skip();
                } else {
                  micro_step(micro, small, step == 3 ? 0.0F : 1.0F);
                }
              }
              if (step == 3) {
                result.reports.push_back(engine.step().value());
                auto const weights = read_weights(engine, small);
                result.weights.insert(result.weights.end(), weights.begin(), weights.end());
              } else if (auto const report = engine.step()) {
                result.reports.push_back(*report);
              }
              if (step == 2) {
                result.weights = read_weights(engine, small);
              }
            }
            result.reports.push_back(engine.finish().value());
            return result;
          });
      INFO(fmt::format("stage {}, {}", stage, skips ? "skip()" : "weight 0"));
      for (auto const& each : seen) {
        auto const& reports = each.reports;
        REQUIRE(reports.size() == 4);
        CHECK_FALSE(reports[1].skipped);
        CHECK(reports[2].skipped);
        CHECK(reports[2].loss == 0);
        CHECK(reports[2].grad_norm == 0);
        CHECK(reports[2].learning_rate == reports[3].learning_rate);
        CHECK_FALSE(reports[3].skipped);
        auto const half = each.weights.size() / 2;
        CHECK(half == 900);
        CHECK(std::equal(each.weights.begin(), each.weights.begin() + static_cast<std::ptrdiff_t>(half),
                         each.weights.begin() + static_cast<std::ptrdiff_t>(half)));
      }
    }
  }
}

TEST_CASE("a rank without data has weight 0 and changes nothing") {
  // Compares one rank with two ranks of which the second has no data: the same samples, so the same training.
  auto const train_on = [](int stage, int world) {
    return run(world, small_config(stage, {.accumulation = 1}),
               [&](Job& job, Engine<float>& engine, SmallModel const& small) {
                 auto const reports = train(engine, 3, [&](auto& micro, int step) {
                   if (job.rank() == 1) {
                     return micro.skip();
                   }
                   forward(micro, small);
                   float const seed = micro.report_loss(loss_of(step));
                   for (auto u = small.units.size(); u-- > 0;) {
                     auto const p = micro.backward(small.units[u]);
                     contribute(p, small.weights[u], step, seed);
                   }
                 });
                 return Seen{.reports = reports, .weights = read_weights(engine, small)};
               })
        .front();
  };
  for (int stage = 0; stage <= 3; ++stage) {
    auto const alone = train_on(stage, 1);
    auto const two = train_on(stage, 2);
    INFO("stage " << stage);
    for (std::size_t step = 0; step < 3; ++step) {
      CHECK(two.reports[step].loss == alone.reports[step].loss);
      CHECK(two.reports[step].grad_norm == Approx(alone.reports[step].grad_norm).epsilon(1e-6));
    }
    CHECK(two.weights.size() == alone.weights.size());
    float difference = 0;
    for (std::size_t i = 0; i < alone.weights.size(); ++i) {
      difference = std::max(difference, std::abs(alone.weights[i] - two.weights[i]));
    }
    CHECK(difference < 1e-6F);  // only the norm, and therefore the clipping, is rounded differently
  }
}

TEST_CASE("learning rates come from the schedule, or from the argument of step()") {
  auto const more = R"(, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4, "warmup_max_lr": 0.5,
                                                                    "warmup_type": "linear"}})";
  optim::LearningRateSchedule schedule;
  schedule.kind = optim::ScheduleKind::warmup;
  schedule.warmup = optim::WarmupKind::linear;
  schedule.warmup_max = 0.5F;
  schedule.warmup_steps = 4;
  for (int stage = 0; stage <= 3; ++stage) {
    std::atomic<bool> changed{false};
    auto const seen =
        run(2, small_config(stage, {.more = more}), [&](Job&, Engine<float>& engine, SmallModel const& small) {
          Seen result;
          for (int step = 0; step < 5; ++step) {
            all_micro_steps(engine, small);
            if (step == 3) {
              result.weights = read_weights(engine, small);
            }
            auto const report = step == 3 ? engine.step({.learning_rate = 0.0F}) : engine.step();
            if (step == 3 && read_weights(engine, small) != result.weights) {
              changed = true;
            }
            if (report) {
              result.reports.push_back(*report);
            }
          }
          result.reports.push_back(engine.finish().value());
          return result;
        });
    INFO("stage " << stage);
    CHECK_FALSE(changed);  // at rate 0, which also multiplies the weight decay
    for (auto const& each : seen) {
      REQUIRE(each.reports.size() == 5);
      for (int step = 0; step < 5; ++step) {
        auto const expected = step == 3 ? 0.0F : optim::learning_rate(schedule, step);
        CHECK(each.reports[static_cast<std::size_t>(step)].learning_rate == expected);
      }
    }
  }
}

TEST_CASE("a stop that one rank requests is in all ranks' reports of one step") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::vector<bool>> stops(3);
    auto const outcome = run_job(3, [&](Job& job) {
      std::atomic<bool> asked{false};
      auto& state = detail::JobState::of(job);
      state.stop_requested = [&] { return asked.load(); };
      state.request_stop = [&] { asked = true; };
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(stage)};
      auto& mine = stops[static_cast<std::size_t>(job.rank())];
      for (int step = 1; step <= 4; ++step) {
        all_micro_steps(engine, small);
        if (job.rank() == 1 && step == 2) {
          job.request_stop();
        }
        if (auto const report = engine.step()) {
          mine.push_back(report->stop);
        }
      }
      mine.push_back(engine.finish().value().stop);
    });
    REQUIRE(messages_of(outcome) == "");
    INFO("stage " << stage);
    for (auto const& seen : stops) {
      CHECK(seen == std::vector<bool>{false, true, true, true});
    }
  }
}

}  // namespace zeroth::testing
