// SPDX-License-Identifier: Apache-2.0
/// Evaluations: their results, and how to leave them early.
#include <string>
#include <vector>

#include "engine/reports.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Evaluates with the same loss on all ranks. If `leave_after` is not negative, leaves by `break` after so many passes:
/// at the end of the last pass, or at the start of the next one.
Evaluation<float> evaluate(Engine<float>& engine, SmallModel const& small, int passes, float loss, int leave_after = -1,
                           bool at_the_start = false) {
  auto evaluation = engine.evaluation(passes);
  int done = 0;
  for (auto pass : evaluation) {
    if (at_the_start && done == leave_after) {
      break;
    }
    forward(pass, small);
    pass.report_loss(loss);
    if (++done == leave_after && !at_the_start) {
      break;
    }
  }
  return evaluation;
}

}  // namespace

TEST_CASE("an evaluation's loss is the weighted mean over all passes and ranks, and changes nothing else") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<float> means(3, 0);
    run(3, small_config(stage), [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      auto const evaluation = engine.evaluation(2);
      for (auto pass : evaluation) {
        forward(pass, small);
        pass.report_loss(loss_of(pass.first_sample()), {.weight = static_cast<float>(1 + job.rank())});
      }
      means[static_cast<std::size_t>(job.rank())] = evaluation.mean_loss();
      return Seen{};
    });
    double sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int rank = 0; rank < 3; ++rank) {
        sum += static_cast<double>(1 + rank) * static_cast<double>(loss_of((pass * 3 + rank) * 2));
      }
    }
    INFO("stage " << stage);
    for (auto const mean : means) {
      CHECK(mean == static_cast<float>(sum / 12));
    }
  }
}

TEST_CASE("an evaluation that was left by break ends when the next one begins, and changes nothing else") {
  enum class Leaves { never, at_the_end, at_the_start };
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::string> said(2);
    std::vector<float> means(2, 0);
    auto const weights = [&](Leaves leaves) {
      auto const body = [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        auto const rank = static_cast<std::size_t>(job.rank());
        Seen seen;
        for (int step = 1; step <= 3; ++step) {
          for (auto micro : engine.micro_steps()) {
            micro_step(micro, small);
          }
          if (leaves != Leaves::never) {
            auto const left = evaluate(engine, small, 5, 3, step, leaves == Leaves::at_the_start);
            said[rank] += thrown<ContractError>([&] { return left.mean_loss(); });
            means[rank] += evaluate(engine, small, 2, 7).mean_loss();
          }
          engine.step();
        }
        engine.finish();
        seen.weights = read_weights(engine, small);
        return seen;
      };
      return run(2, small_config(stage), body).front().weights;
    };
    INFO("stage " << stage);
    auto const undisturbed = weights(Leaves::never);
    CHECK(weights(Leaves::at_the_end) == undisturbed);
    CHECK(weights(Leaves::at_the_start) == undisturbed);
    for (std::size_t const rank : {0U, 1U}) {
      CHECK(means[rank] == 2 * 3 * 7);
      for (int const after : {1, 2, 3}) {
        CHECK_THAT(said[rank], Contains(fmt::format("mean_loss() after {} of 5 evaluation passes", after)));
      }
    }
  }
}

TEST_CASE("every evaluation keeps its own loss") {
  std::vector<float> means;
  run(1, small_config(0), [&](Job&, Engine<float>& engine, SmallModel const& small) {
    auto const first = evaluate(engine, small, 1, 1);
    auto const second = evaluate(engine, small, 2, 2);
    static_cast<void>(engine.evaluation(1));
    means = {first.mean_loss(), second.mean_loss()};
    return Seen{};
  });
  CHECK(means == std::vector<float>{1, 2});
}

TEST_CASE("an evaluation that was replaced by another cannot begin a pass") {
  std::string message;
  run(1, small_config(0), [&](Job&, Engine<float>& engine, SmallModel const& small) {
    auto const left = evaluate(engine, small, 3, 1, 2);
    static_cast<void>(engine.evaluation(1));
    message = thrown<ContractError>([&] {
      for (auto pass : left) {
        forward(pass, small);
      }
    });
    return Seen{};
  });
  CHECK_THAT(message, Contains("an evaluation pass begins after 2 of 3: a newer evaluation() has replaced this one"));
}

TEST_CASE("ranks that diverge after more calls than the engine keeps still get an error") {
  auto const outcome = run_job(2, [](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(0)};
    for (int i = 0; i < 5000; ++i) {
      static_cast<void>(evaluate(engine, small, 2, 0, 1, job.rank() == 1 && i == 4999));
    }
    all_micro_steps(engine, small);
    engine.step();
    engine.finish();
  });
  for (auto const& error : outcome) {
    CHECK(holds<PeerError>(error));
  }
  CHECK_THAT(messages_of(outcome),
             Contains("ranks took different paths in step 1, after its first 16384 calls, which were the same"));
}

}  // namespace zeroth::testing
