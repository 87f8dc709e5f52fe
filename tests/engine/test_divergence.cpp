// SPDX-License-Identifier: Apache-2.0
/// Ranks that diverge: every rank ends with an error that describes the difference, at every stage.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/launch/job_state.hpp"
#include "core/hash.hpp"
#include "engine/call_log.hpp"
#include "engine/small_model.hpp"
#include "shard/transaction_log.hpp"
#include "support/catch.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Runs `rank_main` on every rank with its own engine.
Outcome with_engines(int world, int stage,
                     std::function<void(Job&, Engine<float>&, SmallModel const&)> const& rank_main,
                     SmallFile const& file = {}) {
  auto const config = small_config(stage, file);
  return run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, config};
    rank_main(job, engine, small);
  });
}

bool all_are_peer_errors(Outcome const& outcome) { return std::ranges::all_of(outcome, holds<PeerError>); }

/// A micro-step that runs forward of the first two units in an order that depends on the rank.
void swapped_micro_step(MicroStep<float, float>& micro, SmallModel const& small, bool swap) {
  for (std::size_t const u : {swap ? 1U : 0U, swap ? 0U : 1U, 2U}) {
    auto const p = micro.forward(small.units[u]);
  }
  backward(micro, small, micro.report_loss(1));
}

}  // namespace

TEST_CASE("different models of ranks are reported when engines are built") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = run_job(3, [&](Job& job) {
      SmallModel small;
      if (job.rank() == 2) {
        static_cast<void>(small.model.param(small.units[0], "one.more", {1}, Constant{0}));
      }
      Engine<float> const engine{job, small.model, small_config(stage)};
    });
    CHECK(all_are_peer_errors(outcome));
    CHECK_THAT(messages_of(outcome), Contains("ranks 0 and 2 built an engine from different models"));
  }
}

TEST_CASE("different seeds and stage files of ranks are reported") {
  auto const seeds = run_job(2, [&](Job& job) {
    Model model{static_cast<std::uint64_t>(job.rank())};
    static_cast<void>(model.param(model.unit("u"), "w", {4}, Constant{0}));
    Engine<float> const engine{job, model, small_config(1)};
  });
  CHECK(all_are_peer_errors(seeds));
  CHECK_THAT(messages_of(seeds),
             Contains("different models (units, parameters, shapes, options, initial values or seed)"));
  auto const files = run_job(2, [&](Job& job) {
    SmallModel const small;
    auto const file = job.rank() == 0 ? SmallFile{} : SmallFile{.zero = R"(, "reduce_bucket_size": 7)"};
    Engine<float> const engine{job, small.model, small_config(2, file)};
  });
  CHECK(all_are_peer_errors(files));
  CHECK_THAT(messages_of(files), Contains("ranks 0 and 1 built an engine from different stage files"));
}

TEST_CASE("a program built for other types than the file's is rejected with both named") {
  auto const error_of = [](auto types, std::string const& keys) {
    using Types = decltype(types);
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small;
      Engine<typename Types::Compute, typename Types::Gradient> const engine{job, small.model,
                                                                             small_config(0, {.more = keys})};
    });
    CHECK(holds<ConfigError>(outcome.front()));
    return message_of(outcome.front());
  };
  auto const bf16_file = R"(, "bf16": {"enabled": true})";
  CHECK_THAT(
      error_of(Precision<bf16, bf16>{}, ""),
      Contains("the stage file says compute dtype fp32 (fp16.enabled, bf16.enabled), but the program's Engine is "
               "built for bf16"));
  CHECK_THAT(error_of(Precision<float, float>{}, bf16_file),
             Contains("compute dtype bf16") && Contains("built for fp32"));
  CHECK_THAT(error_of(Precision<fp16, fp16>{}, bf16_file),
             Contains("compute dtype bf16") && Contains("built for fp16"));
  CHECK_THAT(
      error_of(Precision<bf16, float>{}, bf16_file),
      Contains("the stage file says gradient dtype bf16 (zeroth.gradient_dtype), but the program's Engine is built "
               "for fp32; change the file, or choose the types with zeroth::with_precision"));
}

TEST_CASE("units in another order on another rank are found by the communicator if their messages differ") {
  auto const outcome = with_engines(2, 3, [](Job& job, Engine<float>& engine, SmallModel const& small) {
    for (auto micro : engine.micro_steps()) {
      swapped_micro_step(micro, small, job.rank() == 1);
    }
    engine.step();
    engine.finish();
  });
  CHECK(all_are_peer_errors(outcome));
  CHECK_THAT(messages_of(outcome), Contains("do different things") && Contains("forward of unit 'block0'") &&
                                       Contains("forward of unit 'block1'"));
}

TEST_CASE("units in another order on another rank are found by the next report if nothing is gathered") {
  for (int stage = 0; stage <= 2; ++stage) {
    for (bool const one_step : {true, false}) {
      for (int const world : {2, 3}) {
        INFO(fmt::format("stage {}, {}, {} ranks", stage, one_step ? "finish()" : "step()", world));
        std::vector<int> steps(static_cast<std::size_t>(world), 0);
        auto const outcome = with_engines(world, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
          for (int step = 1; step <= (one_step ? 1 : 3); ++step) {
            for (auto micro : engine.micro_steps()) {
              swapped_micro_step(micro, small, job.rank() == world - 1);
            }
            engine.step();
            ++steps[static_cast<std::size_t>(job.rank())];
          }
          engine.finish();
        });
        CHECK(all_are_peer_errors(outcome));
        for (auto const& error : outcome) {
          CHECK_THAT(message_of(error),
                     Contains(fmt::format("ranks took different paths in step 1: as call 2 of the step, rank 0 made "
                                          "forward of unit \"block0\", rank {} made forward of unit \"block1\"",
                                          world - 1)));
        }
        CHECK(steps == std::vector<int>(static_cast<std::size_t>(world), 1));
      }
    }
  }
}

TEST_CASE("a correct step does not hide the mistake of the step before") {
  auto const outcome = with_engines(2, 1, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
    for (int step = 1; step <= 4; ++step) {
      for (auto micro : engine.micro_steps()) {
        swapped_micro_step(micro, small, job.rank() == 1 && step == 2);
      }
      engine.step();
    }
    engine.finish();
  });
  CHECK(all_are_peer_errors(outcome));
  CHECK_THAT(messages_of(outcome), Contains("different paths in step 2"));
}

TEST_CASE("the same undeclared order on all ranks trains") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<float> declared;
    for (bool const swap : {false, true}) {
      std::vector<float> weights;
      auto const outcome = with_engines(2, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        for (int step = 1; step <= 3; ++step) {
          for (auto micro : engine.micro_steps()) {
            swapped_micro_step(micro, small, swap);
          }
          engine.step();
        }
        engine.finish();
        auto const read = read_weights(engine, small);
        if (job.rank() == 0) {
          weights = read;
        }
      });
      CHECK(messages_of(outcome).empty());
      declared = swap ? declared : weights;
      CHECK(weights == declared);
    }
  }
}

TEST_CASE("the error about backward in another order says how many gradient slots it needs") {
  auto const outcome_with = [](int stage, int slots, std::vector<float>& weights) {
    auto const file = SmallFile{.zeroth = fmt::format(R"(, "gradient_slots": {})", slots)};
    return with_engines(
        2, stage,
        [&](Job& job, Engine<float>& engine, SmallModel const& small) {
          for (auto micro : engine.micro_steps()) {
            forward(micro, small);
            float const seed = micro.report_loss(1);
            for (std::size_t const u : {0U, 2U, 1U}) {
              backward(micro, small, u, seed);
            }
          }
          engine.step();
          engine.finish();
          auto const read = read_weights(engine, small);
          if (job.rank() == 0) {
            weights = read;
          }
        },
        file);
  };
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    std::vector<float> weights;
    CHECK(messages_of(outcome_with(stage, 3, weights)).empty());
    std::vector<float> declared;
    auto const outcome = with_engines(2, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      for (auto micro : engine.micro_steps()) {
        forward(micro, small);
        backward(micro, small, micro.report_loss(1));
      }
      engine.step();
      engine.finish();
      auto const read = read_weights(engine, small);
      if (job.rank() == 0) {
        declared = read;
      }
    });
    CHECK(messages_of(outcome).empty());
    CHECK(weights == declared);
    if (stage >= 2) {
      CHECK_THAT(
          messages_of(outcome_with(stage, 1, weights)),
          Contains("no gradient slot for unit \"block2\": all hold gradients that cannot be reduced before backward "
                   "of unit \"block2\", which comes first in declared order; run backward in reverse order of the "
                   "model's units, or raise zeroth.gradient_slots to 2"));
    }
  }
}

TEST_CASE("the error about missing gradient slots names the backward guard that blocks the only bucket") {
  for (int stage = 2; stage <= 3; ++stage) {
    auto const outcome = with_engines(
        2, stage,
        [&](Job& /*job*/, Engine<float>& engine, SmallModel const& small) {
          for (auto micro : engine.micro_steps()) {
            forward(micro, small);
            float const seed = micro.report_loss(1);
            auto const held = micro.backward(small.units[2]);
            contribute(held, small.weights[2], micro.first_sample(), seed);
            backward(micro, small, 1, seed);
            backward(micro, small, 0, seed);
          }
        },
        SmallFile{.zeroth = R"(, "gradient_slots": 2)"});
    CHECK_THAT(
        messages_of(outcome),
        Contains("no gradient slot for unit \"block0\": all are taken, and those of unit \"block2\" cannot be reduced "
                 "before its backward guard ends; end that guard first, or raise zeroth.gradient_slots"));
  }
}

TEST_CASE("an evaluation on one rank only ends all ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (bool const between_micro_steps : {true, false}) {
      INFO(fmt::format("stage {}, {}", stage, between_micro_steps ? "between micro-steps" : "between steps"));
      auto const outcome = with_engines(2, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        auto const evaluate = [&] {
          if (job.rank() == 1) {
            for (auto pass : engine.evaluation(1)) {
              forward(pass, small);
              pass.report_loss(1);
            }
          }
        };
        for (int step = 1; step <= 2; ++step) {
          auto const passes = engine.micro_steps();
          for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
            {
              auto micro = *pass;
              micro_step(micro, small);
            }
            if (between_micro_steps) {
              evaluate();
            }
          }
          engine.step();
          if (!between_micro_steps) {
            evaluate();
          }
        }
        engine.finish();
      });
      CHECK(all_are_peer_errors(outcome));
      CHECK_THAT(messages_of(outcome),
                 Contains("rank 0") && Contains("rank 1") && Contains("evaluation") && Contains("unit 'block"));
    }
  }
}

TEST_CASE("evaluations of different length end all ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = with_engines(2, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      for (auto pass : engine.evaluation(job.rank() == 0 ? 1 : 2)) {
        forward(pass, small);
        pass.report_loss(1);
      }
      all_micro_steps(engine, small);
      engine.step();
      engine.finish();
    });
    INFO("stage " << stage << "\n" << messages_of(outcome));
    CHECK(all_are_peer_errors(outcome));
  }
}

TEST_CASE("a rank that stops earlier than the others ends them") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = with_engines(3, stage, [](Job& job, Engine<float>& engine, SmallModel const& small) {
      train(engine, small, job.rank() == 1 ? 2 : 3);
    });
    INFO("stage " << stage);
    for (std::size_t const rank : {0U, 2U}) {
      CHECK(holds<PeerError>(outcome[rank]));
      CHECK_THAT(message_of(outcome[rank]), Contains("rank 1 left"));
    }
  }
}

TEST_CASE("weights saved by one rank only end all ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (int const after : {0, 1}) {
      auto const outcome = with_engines(2, stage, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        for (int step = 0; step < 2; ++step) {
          if (job.rank() == 1 && step == after) {
            engine.save_weights("/nowhere/at.all");
          }
          all_micro_steps(engine, small);
          engine.step();
        }
        engine.finish();
      });
      INFO(fmt::format("stage {}, after {} steps\n{}", stage, after, messages_of(outcome)));
      CHECK(all_are_peer_errors(outcome));
      CHECK_THAT(messages_of(outcome), Contains("do different things") && Contains("save_weights"));
    }
  }
}

TEST_CASE("different learning rates are found in the next report") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = with_engines(2, stage, [](Job& job, Engine<float>& engine, SmallModel const& small) {
      all_micro_steps(engine, small);
      engine.step({.learning_rate = job.rank() == 0 ? 0.25F : 0.5F});
      engine.finish();
    });
    INFO("stage " << stage);
    CHECK(all_are_peer_errors(outcome));
    CHECK_THAT(messages_of(outcome),
               Contains("rank 0 made step() with a learning rate of 0.25, rank 1 made step() with a "
                        "learning rate of 0.5"));
  }
}

TEST_CASE("an overflow at the smallest loss scale ends training on all ranks, in the next report") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const config =
        small_config(stage, {.more = R"(, "fp16": {"enabled": true, "initial_scale_power": 2, "hysteresis": 1,
                                                         "min_loss_scale": 2})"});
    std::vector<std::vector<StepReport>> reports(2);
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<fp16> engine{job, small.model, config};
      for (int step = 1; step <= 4; ++step) {
        for (auto micro : engine.micro_steps()) {
          forward(micro, small);
          float const seed = micro.report_loss(1);
          for (auto u = small.units.size(); u-- > 0;) {
            auto const p = micro.backward(small.units[u]);
            if (step == 3 && u == 0 && job.rank() == 0) {
              // By the time this rank's last reduction begins, rank 1 has long found the overflow in its report.
              std::this_thread::sleep_for(std::chrono::milliseconds{50});
            }
            contribute(p, small.weights[u], 0, job.rank() == 1 && u == 1 ? HUGE_VALF : seed);
          }
        }
        if (auto const report = engine.step()) {
          reports[static_cast<std::size_t>(job.rank())].push_back(*report);
        }
      }
    });
    INFO("stage " << stage);
    for (auto const& error : outcome) {
      CHECK_FALSE(holds<PeerError>(error));
      CHECK(holds<Error>(error));
      CHECK_THAT(message_of(error), Contains("step 2: a gradient is not finite, and the loss scale is already at its "
                                             "smallest value, 2 (fp16.min_loss_scale): training cannot continue"));
    }
    for (auto const& seen : reports) {
      REQUIRE(seen.size() == 1);
      CHECK(seen[0].skipped);
      CHECK(seen[0].loss_scale == 4);
    }
  }
}

TEST_CASE("a failed engine stays failed, and gives the reason") {
  std::vector<std::string> later;
  auto const outcome = with_engines(1, 0, [&](Job&, Engine<float>& engine, SmallModel const& small) {
    for (auto micro : engine.micro_steps()) {
      forward(micro, small);
      break;  // leaves out the loss and backward
    }
    auto const attempt = [&](auto const& call) {
      try {
        call();
      } catch (ContractError const& error) {
        later.emplace_back(error.what());
      }
    };
    attempt([&] { all_micro_steps(engine, small); });
    attempt([&] { engine.step(); });
    attempt([&] { engine.finish(); });
    attempt([&] { static_cast<void>(engine.evaluation(1)); });
    attempt([&] { engine.save_weights("/nowhere"); });
  });
  CHECK(messages_of(outcome).empty());
  REQUIRE(later.size() == 5);
  for (auto const& message : later) {
    CHECK_THAT(message, Contains("the engine failed before: ") &&
                            Contains("micro-step 1 of step 1 ended after 0 of 1 backward turns of unit \"block0\""));
  }
}

TEST_CASE("transactions that differ although the calls do not are reported with name and position") {
  SmallModel const small;
  shard::Layout const layout{small.model.description(), 3};
  auto const told = [&](int calls_before, auto const& last_of) {
    std::vector<double> hashes(3);
    auto const outcome = run_job(3, [&](Job& job) {
      auto const device = job.make_device();
      auto& ranks = *detail::JobState::of(job).communicator;
      std::array<shard::TransactionLog, 2> logs{shard::TransactionLog{ranks}, shard::TransactionLog{ranks}};
      auto const add = [&](shard::TransactionLog& log, std::string_view what, std::uint32_t unit, std::int64_t count) {
        comm::Collective const one{.operation = comm::Operation::all_gather, .count = count};
        log.add(what, static_cast<shard::FlatId>(unit), {&one, 1});
      };
      for (int call = 0; call < calls_before; ++call) {
        add(logs[1], "gather", static_cast<std::uint32_t>(call % 3), 128);
      }
      last_of(job.rank(), [&](std::uint32_t unit, std::int64_t count) { add(logs[1], "gather", unit, count); });
      add(logs[0], "publish", 0, 128);
      engine::CallLog call_log;
      call_log.add(engine::Verb::begin_micro_step);
      call_log.note_transactions(mix(logs[0].hash(), logs[1].hash()));
      hashes[static_cast<std::size_t>(job.rank())] = call_log.hash();
      engine::compare_transactions(logs, 7, layout, {&ranks, device.get(), &device->compute()});
    });
    CHECK(hashes[0] == hashes[1]);
    CHECK(hashes[0] != hashes[2]);
    CHECK(all_are_peer_errors(outcome));
    return messages_of(outcome);
  };
  CHECK_THAT(told(4, [](int rank, auto const& add) { add(rank == 2 ? 0 : 1, 128); }),
             Contains("ranks diverged before the end of step 7 although they made the same calls: as transaction 5 on "
                      "communicator 'world', rank 0 did all_gather of 128 elements (gather of unit \"block1\"), rank 2 "
                      "did all_gather of 128 elements (gather of unit \"block0\")"));
  CHECK_THAT(told(4, [](int rank, auto const& add) { add(1, rank == 2 ? 256 : 128); }),
             Contains("as transaction 5 on") && Contains("rank 2 did all_gather of 256 elements"));
  CHECK_THAT(told(0, [](int rank, auto const& add) { rank == 2 ? void() : add(2, 128); }),
             Contains("as transaction 1 on") && Contains("rank 2 did nothing more"));
  auto const long_ago = told(0, [](int rank, auto const& add) {
    add(rank == 2 ? 0 : 1, 128);
    for (std::size_t later = 0; later < shard::TransactionLog::most_entries; ++later) {
      add(2, 128);
    }
  });
  CHECK_THAT(long_ago, Contains("as transaction 2 on communicator 'world', or before it, rank 0 did"));
}

TEST_CASE("a guard around another unit's backward turn is rejected if gathers and reductions take turns") {
  for (std::string const keys : {R"(, "overlap_comm": false)", R"(, "overlap_comm": true)"}) {
    auto const outcome =
        with_engines(2, 3,
                     [](Job&, Engine<float>& engine, SmallModel const& small) {
                       train(engine, 2, [&](auto& micro, int) {
                         forward(micro, small);
                         float const seed = micro.report_loss(1);
                         std::array<std::optional<Backward<float, float>>, 4> guards;
                         for (auto u = small.units.size(); u-- > 0;) {
                           guards[u].emplace(micro.backward(small.units[u]));
                           contribute(*guards[u], small.weights[u], micro.first_sample(), seed);
                           guards[u + 1].reset();
                         }
                       });
                     },
                     {.zero = R"(, "stage3_prefetch_bucket_size": 1)" + keys, .zeroth = R"(, "gradient_slots": 3)"});
    if (keys.ends_with("true")) {
      CHECK(messages_of(outcome) == "");
    } else {
      CHECK_THAT(messages_of(outcome), Contains("a gather and a reduction of gradients take turns here") &&
                                           Contains("backward of unit \"block1\""));
    }
  }
}

}  // namespace zeroth::testing
