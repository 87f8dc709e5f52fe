// SPDX-License-Identifier: Apache-2.0
/// Reading and writing single parameters, norms before the update, initial values from memory, run-time types and
/// shapes, and calls from other threads.
#include <atomic>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

char const* const dtype_files[] = {
    "",
    R"(, "bf16": {"enabled": true})",
    R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true})",
    R"(, "fp16": {"enabled": true, "initial_scale_power": 4})",
};

std::vector<std::uint32_t> bits_of(std::vector<float> const& values) {
  std::vector<std::uint32_t> bits;
  for (auto const value : values) {
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return bits;
}

template <class E>
std::vector<float> read(E& engine, AnyParam const& param) {
  std::vector<float> values(static_cast<std::size_t>(
      std::accumulate(param.shape().begin(), param.shape().end(), std::int64_t{1}, std::multiplies{})));
  engine.read(param, values);
  return values;
}

}  // namespace

TEST_CASE("read() returns the master at every stage, and guards and training use the values of write()") {
  for (auto const* const file : dtype_files) {
    for (int const world : {1, 3}) {
      std::vector<std::vector<std::uint32_t>> by_stage;
      for (int stage = 0; stage <= 3; ++stage) {
        INFO(fmt::format("{} ranks, stage {}{}", world, stage, file));
        std::vector<std::vector<std::uint32_t>> by_rank(static_cast<std::size_t>(world));
        auto const config =
            small_config(stage, {.zeroth = R"(, "reduce_gradients": "every_micro_step")", .more = file});
        auto const outcome = run_job(world, [&](Job& job) {
          with_precision(config, [&]<class T, class G>(Precision<T, G>) {
            SmallModel const small;
            Engine<T, G> engine{job, small.model, config};
            auto& bits = by_rank[static_cast<std::size_t>(job.rank())];
            auto const keep = [&](std::vector<float> const& values) {
              auto const more = bits_of(values);
              bits.insert(bits.end(), more.begin(), more.end());
            };
            train(engine, small, 2);
            auto const before = read(engine, small.weights[0]);
            keep(before);
            keep(read(engine, small.frozen));
            auto const neighbour = read(engine, small.weights[2]);
            std::vector<float> values(300);
            for (std::size_t i = 0; i < values.size(); ++i) {
              values[i] = static_cast<float>(i) / 256 - 0.5F;  // exact in every dtype
            }
            values[7] = 0.3F;  // not exact in any dtype but fp32
            engine.write(small.weights[0], values);
            auto const written = read(engine, small.weights[0]);
            keep(written);
            engine.write(small.frozen, std::vector<float>(50, 1.5F));
            bool good = read(engine, small.frozen) == std::vector<float>(50, 1.5F) &&
                        read(engine, small.weights[2]) == neighbour && before != written;
            for (auto pass : engine.evaluation(1)) {
              auto const p = pass.forward(small.units[0]);
              auto const view = p[small.weights[0]];
              for (std::size_t i = 0; i < values.size(); ++i) {
                good = good && to_float(view.data()[i]) == to_float(from_float<T>(values[i])) &&
                       std::abs(written[i] - values[i]) < 0.002F && (i == 7 || i > 255 || written[i] == values[i]);
              }
              pass.report_loss(0);
            }
            keep(std::vector<float>{good ? 1.0F : 0.0F});
            train(engine, small, 2);
            keep(read(engine, small.weights[0]));
            keep(read(engine, small.weights[1]));
          });
        });
        REQUIRE(messages_of(outcome) == "");
        for (auto const& bits : by_rank) {
          CHECK(bits == by_rank.front());
        }
        CHECK(by_rank.front()[300 + 50 + 300] == std::bit_cast<std::uint32_t>(1.0F));
        by_stage.push_back(by_rank.front());
        CHECK(by_stage.back() == by_stage.front());
      }
    }
  }
}

TEST_CASE("ranks that write different values get an error") {
  for (int stage = 0; stage <= 3; ++stage) {
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(stage)};
      engine.write(small.weights[1], std::vector<float>(300, static_cast<float>(job.rank())));
    });
    for (auto const& error : outcome) {
      CHECK(holds<PeerError>(error));
      CHECK_THAT(message_of(error),
                 Catch::Contains("write(): ranks 0 and 1 gave different values for parameter \"block1.w\""));
    }
  }
}

TEST_CASE("gradient_norm() before the update is the report's norm, and parameters' norms add up to it") {
  for (auto const* const file : dtype_files) {
    for (int const world : {1, 2}) {
      std::vector<std::uint32_t> first;
      for (int stage = 0; stage <= 3; ++stage) {
        INFO(fmt::format("{} ranks, stage {}{}", world, stage, file));
        std::vector<float> norms;
        std::vector<float> reported;
        auto const config =
            small_config(stage, {.zeroth = R"(, "reduce_gradients": "every_micro_step")", .more = file});
        auto const outcome = run_job(world, [&](Job& job) {
          with_precision(config, [&]<class T, class G>(Precision<T, G>) {
            SmallModel const small;
            Engine<T, G> engine{job, small.model, config};
            for (int step = 0; step < 3; ++step) {
              all_micro_steps(engine, small);
              float const norm = engine.gradient_norm();
              std::vector<float> parts;
              for (auto const& weight : small.weights) {
                parts.push_back(engine.gradient_norm(weight));
              }
              engine.step();
              auto const report = engine.finish();  // the report of this step
              if (job.rank() == 0) {
                norms.push_back(norm);
                norms.insert(norms.end(), parts.begin(), parts.end());
                reported.push_back(report->grad_norm);
              }
            }
          });
        });
        REQUIRE(messages_of(outcome) == "");
        for (std::size_t step = 0; step < 3; ++step) {
          auto const* const at = &norms[4 * step];
          CHECK(at[0] > 0);
          CHECK(std::bit_cast<std::uint32_t>(at[0]) == std::bit_cast<std::uint32_t>(reported[step]));
          CHECK(std::hypot(at[1], at[2], at[3]) == Approx(at[0]).epsilon(1e-6));
        }
        first = first.empty() ? bits_of(norms) : first;
        CHECK(bits_of(norms) == first);
      }
    }
  }
}

TEST_CASE("a parameter's norm is that of what was written to its gradient") {
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(messages_of(run_job(1, [&](Job& job) {
            SmallModel const small;
            Engine<float> engine{job, small.model, small_config(stage, {.accumulation = 1})};
            double squares = 0;
            for (auto micro : engine.micro_steps()) {
              forward(micro, small);
              static_cast<void>(micro.report_loss(1));
              for (std::size_t u = 3; u-- > 0;) {
                auto const p = micro.backward(small.units[u]);
                auto const grad = p.grad(small.weights[u]);
                for (int i = 0; i < 300; ++i) {
                  grad.data()[i] = noise(i, static_cast<int>(u));
                  squares += u == 1 ? std::pow(static_cast<double>(grad.data()[i]), 2) : 0;
                }
              }
            }
            auto const norm = static_cast<double>(engine.gradient_norm(small.weights[1]));
            expect(squares > 0 && std::abs(norm - std::sqrt(squares)) < 1e-6 * norm, "another norm");
          })) == "");
  }
}

TEST_CASE("initial values come from memory, which is freed with the model") {
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(messages_of(run_job(2, [&](Job& job) {
            auto values = std::make_shared<std::vector<float>>(1000);
            std::iota(values->begin(), values->end(), 1.0F);
            std::weak_ptr<std::vector<float>> const watched{values};
            std::unique_ptr<AnyEngine> engine;
            std::vector<AnyParam> params;
            {
              Model model;
              auto const unit = model.unit("unit");
              params.push_back(
                  model.param(unit, "w", {10, 100}, FromMemory{[values](std::int64_t first, std::span<float> into) {
                                std::copy_n(values->begin() + first, into.size(), into.begin());
                              }}));
              values.reset();
              engine = std::make_unique<AnyEngine>(job, model, small_config(stage));
              expect(model.parameter_count() == 1000, "parameter_count()");
            }
            expect(watched.expired(), "the values are still held");
            std::vector<float> expected(1000);
            std::iota(expected.begin(), expected.end(), 1.0F);
            expect(read(*engine, params.front()) == expected, "other values");
          })) == "");
  }
}

TEST_CASE("an AnyEngine trains parameters of any number of dimensions like a typed engine") {
  for (auto const* const file : dtype_files) {
    for (int stage = 0; stage <= 3; ++stage) {
      INFO(fmt::format("stage {}{}", stage, file));
      auto const config = small_config(stage, {.more = file});
      std::vector<std::uint32_t> typed;
      std::vector<std::uint32_t> any;
      auto const outcome = run_job(2, [&](Job& job) {
        std::vector<std::int64_t> const shapes[] = {{}, {6}, {2, 1, 3, 1, 2, 2}};
        Model model{3};
        auto const unit = model.unit("unit");
        std::vector<AnyParam> params;
        for (auto const& shape : shapes) {
          params.push_back(model.param(unit, fmt::format("p{}", shape.size()), shape, Normal{0.5F}));
        }
        auto const add = [&](auto const* value, auto* gradient, AnyView const& view, float beta, float seed) {
          using G = std::remove_cvref_t<decltype(*gradient)>;
          for (std::int64_t i = 0; i < view.count; ++i) {
            float const old = beta == 0 ? 0.0F : to_float(gradient[i]);
            gradient[i] = from_float<G>(old + seed * (to_float(value[i]) + noise(view.count, i)));
          }
        };
        auto const keep = [&](AnyEngine& engine, std::vector<StepReport> const& reports,
                              std::vector<std::uint32_t>& bits) {
          for (auto const& report : reports) {
            bits.push_back(std::bit_cast<std::uint32_t>(report.grad_norm));
          }
          for (auto const& param : params) {
            auto const more = bits_of(read(engine, param));
            bits.insert(bits.end(), more.begin(), more.end());
          }
        };
        with_precision(config, [&]<class T, class G>(Precision<T, G>) {
          std::vector<std::uint32_t> mine;
          {
            AnyEngine engine{job, model, config};
            expect(engine.compute_dtype() == dtype_of<T>, "compute_dtype()");
            std::vector<StepReport> reports;
            for (int step = 0; step < 2; ++step) {
              for (auto micro : engine.micro_steps()) {
                { auto const p = micro.forward(unit); }
                float const seed = micro.report_loss(1);
                auto const p = micro.backward(unit);
                for (auto const& param : params) {
                  auto const view = p[param];
                  expect(std::vector(view.shape.begin(), view.shape.end()) == param.shape(), "shape");
                  expect(view.dtype == dtype_of<T>, "dtype");
                  auto const gradient = p.grad(param);
                  expect(gradient.dtype() == dtype_of<G>, "dtype of the gradient");
                  expect(gradient.count() == view.count, "count");
                  add(static_cast<T const*>(view.data), static_cast<G*>(gradient.data()), view, gradient.beta(), seed);
                }
              }
              if (auto const report = engine.step()) {
                reports.push_back(*report);
              }
            }
            reports.push_back(*engine.finish());
            keep(engine, reports, mine);
          }
          if (job.rank() == 0) {
            any = mine;
          }
        });
        // The same numbers, in vectors of known types.
        Model flat{3};
        auto const flat_unit = flat.unit("unit");
        std::vector<Param<1>> flat_params;
        for (auto const& param : params) {
          auto const count =
              std::accumulate(param.shape().begin(), param.shape().end(), std::int64_t{1}, std::multiplies{});
          flat_params.push_back(flat.param(flat_unit, fmt::format("p{}", param.shape().size()), {count}, Normal{0.5F}));
        }
        params.assign(flat_params.begin(), flat_params.end());
        with_precision(config, [&]<class T, class G>(Precision<T, G>) {
          Engine<T, G> engine{job, flat, config};
          auto const reports = train(engine, 2, [&](auto& micro, int) {
            { auto const p = micro.forward(flat_unit); }
            float const seed = micro.report_loss(1);
            auto const p = micro.backward(flat_unit);
            for (auto const& param : flat_params) {
              auto const view = p[param];
              auto const gradient = p.grad(param);
              add(view.data(), gradient.data(), AnyView{nullptr, dtype_of<T>, {}, view.count()}, gradient.beta(), seed);
            }
          });
          std::vector<std::uint32_t> mine;
          keep(engine, reports, mine);
          if (job.rank() == 0) {
            typed = mine;
          }
        });
      });
      REQUIRE(messages_of(outcome) == "");
      CHECK(!any.empty());
      CHECK(any == typed);
    }
  }
}

TEST_CASE("passes and guards may move between threads, and log as their rank") {
  for (int stage = 0; stage <= 3; ++stage) {
    INFO("stage " << stage);
    auto const config = small_config(stage, {.zeroth = R"(, "check": true)"});
    auto const run = [&](bool elsewhere) {
      std::vector<float> weights;
      std::string said;
      auto const outcome = run_job(2, [&](Job& job) {
        SmallModel const small;
        Engine<float> engine{job, small.model, config};
        train(engine, 3, [&](auto& micro, int) {
          forward(micro, small);
          float const seed = micro.report_loss(loss_of(micro.first_sample()));
          auto const back = [&] { backward(micro, small, seed); };
          elsewhere ? std::thread{back}.join() : back();
        });
        std::string mine;
        std::thread{[&] { mine = thrown<ContractError>([&] { engine.step(); }); }}.join();
        auto const values = read_weights(engine, small);
        if (job.rank() == 1) {
          weights = values;
          said = mine;
        }
      });
      REQUIRE(messages_of(outcome) == "");
      CHECK_THAT(said, Catch::StartsWith("[rank 1/2] step() after 0 of 2"));
      return bits_of(weights);
    };
    CHECK(run(true) == run(false));
  }
}

TEST_CASE("with zeroth.check concurrent calls of two threads are rejected") {
  std::atomic<bool> refused = false;
  auto const outcome = run_job(2, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(3, {.zeroth = R"(, "check": true)"})};
    std::vector<float> values(300);
    if (job.rank() == 0) {
      std::thread inside{[&] {  // until rank 1 arrives; perhaps trace() is inside first
        while (!thrown<ContractError>([&] { engine.read(small.weights[0], values); }).empty()) {
        }
      }};
      std::string said;
      while (said.empty()) {
        said = thrown<ContractError>([&] { engine.trace(nullptr); });
      }
      refused = true;
      inside.join();
      if (said.find("[rank 0/2] trace() while another thread is in a call on this engine") != 0) {
        throw std::runtime_error{said};
      }
    } else {
      while (!refused) {
        std::this_thread::yield();
      }
      engine.read(small.weights[0], values);
    }
    train(engine, small, 2);
  });
  CHECK(messages_of(outcome) == "");
}

TEST_CASE("invalid reads, writes and norms are rejected with what is allowed, and change nothing") {
  std::vector<std::string> said;
  CHECK(messages_of(run_job(1, [&](Job& job) {
          SmallModel small;
          SmallModel const other;
          Engine<float> engine{job, small.model, small_config(3)};
          std::vector<float> few(299);
          auto const late = small.model.param(small.units[0], "late", {3}, Constant{0});
          auto const say = [&](auto const& call) { said.push_back(thrown<ContractError>(call)); };
          say([&] { engine.read(small.weights[0], few); });
          say([&] { engine.write(small.weights[0], few); });
          say([&] { engine.read(other.weights[0], few); });
          say([&] { engine.read(late, few); });
          say([&] { return engine.gradient_norm(); });
          for (auto micro : engine.micro_steps()) {
            say([&] { engine.read(small.weights[0], few); });
            micro_step(micro, small);
          }
          say([&] { return engine.gradient_norm(small.frozen); });
          engine.step();
          engine.finish();
        })) == "");
  std::vector<std::string> const expected{
      "read() of parameter \"block0.w\" got 299 values, but it has 300",
      "write() of parameter \"block0.w\" got 299 values, but it has 300",
      "read(): the parameter belongs to another model",
      "read(): the parameter was added to the model after this engine was built",
      "gradient_norm() after 0 of 2 micro-steps of step 1: it belongs between the last of them and step()",
      "read() while micro-step 1 of 2 is open: it belongs between passes",
      "read() while micro-step 2 of 2 is open: it belongs between passes",
      "gradient_norm(param): parameter \"block1.frozen\" is frozen and has no gradient"};
  REQUIRE(said.size() == expected.size());
  for (std::size_t i = 0; i < said.size(); ++i) {
    CHECK_THAT(said[i], Catch::Contains(expected[i]));
  }
}

TEST_CASE("with_precision selects among its types, and names them if the file needs others") {
  std::string chosen;
  auto const choose = [&]<class T, class G>(Precision<T, G>) {
    chosen = fmt::format("{} {}", name_of(dtype_of<T>), name_of(dtype_of<G>));
  };
  with_precision<Precision<float>, Precision<bf16>>(small_config(0), choose);
  CHECK(chosen == "fp32 fp32");
  with_precision<Precision<float>, Precision<bf16>>(small_config(0, {.more = dtype_files[2]}), choose);
  CHECK(chosen == "bf16 bf16");
  CHECK_THAT(thrown<ConfigError>([&] {
               with_precision<Precision<float>, Precision<bf16>>(small_config(0, {.more = dtype_files[3]}), choose);
             }),
             Catch::Contains("compute dtype fp16") &&
                 Catch::Contains("fp32 with gradients in fp32, bf16 with gradients in bf16"));
}

}  // namespace zeroth::testing
