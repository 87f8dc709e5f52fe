// SPDX-License-Identifier: Apache-2.0
/// Engines on tensor ranks: results of calls between steps, problems found by zeroth.check, and errors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/merged_parts.hpp"
#include "parity/stage_files.hpp"
#include "parity/tensor.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/job.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Matchers::Contains;

Config config_of(int stage, std::string const& more = "") {
  return Config::from_json(file(fp32_types, stage, 2, "every_micro_step", movements[stage],
                                fmt::format(R"(, "mesh": {{"tensor": 2}}{})", more)));
}

std::string bytes_of_file(std::filesystem::path const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// Runs on two tensor ranks with two data ranks each.
Outcome run_divided(Config const& config, bool sequence,
                    std::function<void(Mesh&, Divided const&, Engine<float>&, DividedRun<float, float>&)> const& work) {
  return run_job(4, [&](Job& job) {
    Mesh mesh{job, config};
    Divided const divided{mesh.tensor_part(), sequence};
    Engine<float> engine{mesh, divided.model, config};
    DividedRun<float, float> run{mesh, divided, engine};
    work(mesh, divided, engine, run);
  });
}

/// A step of a model of one unit, whose only parameter gets `gradient` in each micro-step.
void step_with(Engine<float>& engine, Unit unit, Param<1> const& param, std::vector<float> const& gradient) {
  for (auto work : engine.schedule()) {
    if (work.phase() == Phase::forward) {
      static_cast<void>(work.forward(unit));
      static_cast<void>(work.report_loss(1));
    } else {
      auto const p = work.backward(unit);
      add(p.grad(param), gradient);
    }
  }
  engine.step();
}

}  // namespace

TEST_CASE("read() and write() use the whole parameter on every tensor rank, without padding") {
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<std::vector<float>> seen(4);
    auto const outcome =
        run_divided(config_of(stage), false, [&](Mesh& mesh, Divided const& divided, auto& engine, auto&) {
          auto const& first = divided.blocks[0].first;
          std::vector<float> values(8 * 24);
          std::iota(values.begin(), values.end(), 1.0F);
          engine.write(first, values);
          std::vector<float> table(8 * 18, 3.0F);
          engine.write(divided.table, table);
          std::vector<float> again(values.size());
          engine.read(first, again);
          ZEROTH_EXPECTS(again == values, "what was written");
          engine.read(divided.table, table);
          auto& of_rank = seen[static_cast<std::size_t>(mesh.whole().rank())];
          of_rank = table;
          for (auto pass : engine.evaluation(1)) {  // the values that forward reads
            {
              auto const p = pass.forward(divided.blocks[0].unit);
              auto const view = p[first];
              of_rank.insert(of_rank.end(), view.data(), view.data() + 12);
            }
            for (auto const unit : {divided.blocks[1].unit, divided.blocks[2].unit}) {
              static_cast<void>(pass.forward(unit));
            }
            auto const head = pass.forward(divided.head);
            auto const columns = head[divided.table];
            of_rank.insert(of_rank.end(), columns.data(), columns.data() + 12);
            pass.report_loss(0.0F);
          }
        });
    REQUIRE(messages_of(outcome) == "");
    for (std::size_t rank = 0; rank < 4; ++rank) {
      std::vector<float> expected(8 * 18, 3.0F);
      auto const begin = rank % 2 == 0 ? 1.0F : 7.0F;  // columns 0 to 5 and 12 to 17 of the first row, or the next ones
                                                       // of each section
      for (float const section : {0.0F, 12.0F}) {
        for (float i = 0; i < 6; ++i) {
          expected.push_back(begin + section + i);
        }
      }
      for (int column = 0; column < 12; ++column) {  // 18 columns in parts of 12
        expected.push_back(rank % 2 == 0 || column < 6 ? 3.0F : 0.0F);
      }
      CAPTURE(stage, rank);
      CHECK(seen[rank] == expected);
    }
  }
}

TEST_CASE("losses and metrics of tensor ranks count once, in steps and evaluations") {
  std::vector<std::vector<double>> seen(4);
  auto const outcome =
      run_divided(config_of(2), true, [&](Mesh& mesh, Divided const&, Engine<float>& engine, auto& run) {
        auto const metric = engine.add_metric("tokens");
        auto& of_rank = seen[static_cast<std::size_t>(mesh.whole().rank())];
        of_rank.push_back(static_cast<double>(run.evaluate(2)));
        for (auto work : engine.schedule()) {
          if (work.phase() == Phase::forward) {
            for (auto const unit : work.units()) {
              static_cast<void>(work.forward(unit));
            }
            auto const other = mesh.place().tensor;  // its reports do not count
            work.report_metric(metric, 6 + 100 * other, 3);
            static_cast<void>(work.report_loss(static_cast<float>(1 + mesh.place().data + 50 * other)));
          } else {
            for (auto at = work.units().size(); at-- > 0;) {
              static_cast<void>(work.backward(work.units()[at]));
            }
          }
        }
        engine.step();
        auto const report = *engine.finish();
        of_rank.push_back(static_cast<double>(report.loss));
        of_rank.push_back(report.metrics[metric]);
      });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& of_rank : seen) {
    REQUIRE(of_rank.size() == 3);
    CHECK(of_rank == seen.front());
    CHECK(of_rank[1] == 1.5);
    CHECK(of_rank[2] == 2.0);
  }
}

TEST_CASE("a missing sum over tensor ranks is reported in the first step with a parameter's name") {
  auto const forget = [](bool sequence, std::string const& more) {
    return run_divided(config_of(2, more), sequence, [](Mesh&, Divided const&, auto& engine, auto& run) {
      run.forgets_a_sum = true;
      run.step(1);
      engine.step();
      engine.finish();
    });
  };
  for (auto const& error : forget(false, R"(, "check": true)")) {
    // Each place has its own elements, and may be told of another place's first.
    CHECK_THAT(message_of(error), Contains("step 1: the gradients of parameter \"block") &&
                                      Contains("which are tensor ranks that hold it whole"));
  }
  CHECK(messages_of(forget(false, "")) == "");  // unnoticed, because nothing is compared
}

TEST_CASE("a partial gradient without ParamOptions::partial is reported in the first step") {
  auto const config = config_of(1, R"(, "check": true)");
  auto const outcome = run_job(2, [&](Job& job) {
    Mesh mesh{job, config};
    Model model{1, mesh.tensor_part()};
    auto const unit = model.unit("u");
    auto const bias = model.param(unit, "bias", {100}, Constant{0});
    Engine<float> engine{mesh, model, config};
    step_with(engine, unit, bias, std::vector<float>(100, static_cast<float>(1 + mesh.place().tensor)));
  });
  CHECK_THAT(message_of(outcome[1]), Contains("the gradients of parameter \"bias\" differ between ranks 0 and 1") &&
                                         Contains("ParamOptions::partial"));
}

TEST_CASE("a whole gradient with ParamOptions::partial is reported") {
  enum class Written : std::uint8_t { same, different, few, not_finite };
  auto const train = [](int stage, Written written) {
    auto const config = config_of(stage, R"(, "check": true)");
    return run_job(4, [&](Job& job) {
      Mesh mesh{job, config};
      Model model{1, mesh.tensor_part()};
      auto const unit = model.unit("u");
      auto const bias = model.param(unit, "bias", {600}, Constant{0}, {.partial = true});
      Engine<float> engine{mesh, model, config};
      std::vector<float> gradient(600, 2.0F);
      if (written == Written::different) {
        gradient[77 + 400 * static_cast<std::size_t>(mesh.place().data)] += static_cast<float>(mesh.place().tensor);
      } else if (written == Written::few) {
        std::fill(gradient.begin() + 15, gradient.end(), 0.0F);
      } else if (written == Written::not_finite) {
        std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
      }
      for (int step = 0; step < 2; ++step) {
        step_with(engine, unit, bias, gradient);
      }
      engine.finish();
    });
  };
  for (int stage = 0; stage <= 3; ++stage) {
    CAPTURE(stage);
    for (auto const& error : train(stage, Written::same)) {
      CHECK_THAT(message_of(error), Contains("step 1: all 2 tensor ranks wrote the same gradient of parameter "
                                             "\"bias\", which is partial"));
    }
    CHECK(messages_of(train(stage, Written::different)) == "");
    CHECK(messages_of(train(stage, Written::few)) == "");
    CHECK(messages_of(train(stage, Written::not_finite)) == "");
  }
}

TEST_CASE("different initial values of tensor ranks are reported") {
  auto const config = config_of(3);
  auto const outcome = run_job(2, [&](Job& job) {
    Mesh mesh{job, config};
    Model model{1, mesh.tensor_part()};
    auto const unit = model.unit("u");
    auto const differs = static_cast<float>(mesh.place().tensor);
    static_cast<void>(model.param(unit, "w", {1000}, PerElement{[differs](std::int64_t i) {
                                    return i == 333 ? differs : 0.0F;  // not an element that fingerprints sample
                                  }}));
    Engine<float> const engine{mesh, model, config};
  });
  CHECK_THAT(message_of(outcome[0]), Contains("rank 1's unit \"u (whole)\" differs from rank 0's after initialisation: "
                                              "tensor ranks that should hold the same do not"));
}

TEST_CASE("pieces of tensor ranks form the whole parameter, whichever come first") {
  std::mt19937 random{5};
  for (int turn = 0; turn < 400; ++turn) {
    auto const below = [&](unsigned bound) { return static_cast<std::int64_t>(random() % bound); };
    std::vector<std::int64_t> const shape{1 + below(5), 1 + below(9), 1 + below(4)};
    int const of = 2 + static_cast<int>(below(3));
    Cut cut{static_cast<int>(below(3)), {}, 1 + below(3)};
    if (auto const extent = shape[static_cast<std::size_t>(cut.dim)]; extent > 1) {
      cut.sections = {extent / 2, extent - extent / 2};
    }
    std::vector<model::CutPart> parts;
    std::vector<std::vector<float>> elements;
    for (int index = 0; index < of; ++index) {
      auto const& part = parts.emplace_back("w", shape, cut, TensorPart{index, of});
      auto& mine = elements.emplace_back();
      part.each_run(0, part.count(), [&](model::CutPart::Run const& run) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          mine.push_back(run.is_padding() ? -1 : static_cast<float>(run.in_whole + i));
        }
      });
    }
    auto const size = static_cast<std::size_t>(1 + below(7));
    std::vector<std::vector<float>> memory(static_cast<std::size_t>(of), std::vector<float>(size));
    std::vector<std::size_t> sent(static_cast<std::size_t>(of), 0);
    std::vector<float> whole;
    int const own = static_cast<int>(below(2)) - 1;
    engine::MergedParts merged{
        parts, std::vector<std::span<float>>(memory.begin(), memory.end()), own,
        [&](int index, std::span<float> piece) {
          auto const rank = static_cast<std::size_t>(index);
          std::copy_n(elements[rank].begin() + static_cast<std::ptrdiff_t>(sent[rank]), piece.size(), piece.begin());
          sent[rank] += piece.size();
        },
        [&](std::span<float const> values) { whole.insert(whole.end(), values.begin(), values.end()); }};
    for (std::size_t first = 0; own == 0 && first < elements[0].size(); first += size) {
      auto const count = std::min(size, elements[0].size() - first);
      merged.push(std::span{elements[0]}.subspan(first, count));
    }
    merged.finish();
    std::vector<float> expected(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
    std::iota(expected.begin(), expected.end(), 0.0F);
    REQUIRE(whole == expected);
    for (std::size_t rank = own == 0 ? 1 : 0; rank < sent.size(); ++rank) {
      REQUIRE(sent[rank] == elements[rank].size());  // no rank has an unclaimed message
    }
  }
}

TEST_CASE("any number of tensor ranks writes the same weight file of whole tensors, and reads it") {
  Folder const folder;
  auto const config_at = [](int stage, int tensor, int pipeline) {
    return Config::from_json(file(bf16_types, stage, 2, "every_micro_step", movements[stage],
                                  fmt::format(R"(, "mesh": {{"tensor": {}, "pipeline": {}}})", tensor, pipeline)));
  };
  using Work = std::function<void(Divided const&, Engine<bf16>&)>;
  auto const on = [&](int world, Config const& config, Work const& work) {
    auto const outcome = run_job(world, [&](Job& job) {
      Mesh mesh{job, config};
      Divided const divided{mesh.tensor_part(), true};
      Engine<bf16> engine{mesh, divided.model, config};
      work(divided, engine);
    });
    REQUIRE(messages_of(outcome) == "");
  };
  auto const initial = folder.path() / "initial.safetensors";
  auto const one = folder.path() / "one.safetensors";
  on(2, config_at(1, 1, 1), [&](Divided const& divided, auto& engine) {
    engine.save_weights(initial);
    std::vector<float> values(8 * 24);
    std::iota(values.begin(), values.end(), 1.0F);
    engine.write(divided.blocks[1].first, values);
    engine.write(divided.table, std::span{values}.first(8 * 18));
    engine.write(divided.blocks[2].gain, std::span{values}.first(8));
    engine.save_weights(one);
  });
  auto const bytes = bytes_of_file(one);
  REQUIRE(bytes.size() > 4000);
  REQUIRE(bytes != bytes_of_file(initial));
  for (auto const& mesh : std::vector<std::array<int, 3>>{{2, 2, 1}, {4, 1, 1}, {2, 1, 2}, {2, 2, 2}}) {
    int const tensor = mesh[0];
    int const data = mesh[1];
    int const pipeline = mesh[2];
    for (int const stage : {0, 3}) {
      CAPTURE(tensor, data, pipeline, stage);
      auto const other = folder.path() / "other.safetensors";
      auto const again = folder.path() / "again.safetensors";
      on(tensor * data * pipeline, config_at(stage, tensor, pipeline), [&](Divided const&, auto& engine) {
        engine.save_weights(other);
        engine.load_weights(one);
        engine.save_weights(again);
      });
      CHECK(bytes_of_file(other) == bytes_of_file(initial));
      CHECK(bytes_of_file(again) == bytes);
    }
  }
}

TEST_CASE("a plan equals the allocations of every tensor rank, and counts the whole model") {
  for (int const stage : {0, 1, 2, 3}) {
    for (bool const sequence : {false, true}) {
      CAPTURE(stage, sequence);
      MemoryBytes planned, other;
      auto const outcome =
          run_divided(config_of(stage), sequence, [&](Mesh& mesh, Divided const&, Engine<float>& engine, auto&) {
            if (mesh.place().data == 0) {
              (mesh.place().tensor == 0 ? planned : other) = engine.planned();
            }
          });
      REQUIRE(messages_of(outcome) == "");
      for (int const index : {0, 1}) {
        Divided const divided{{index, 2}, sequence};
        auto const plan = zeroth::plan(divided.model, config_of(stage), 4);
        CHECK(plan.bytes == (index == 0 ? planned : other));
        Divided const whole{{0, 1}, sequence};
        std::int64_t elements = 0;
        for (auto const& param : whole.model.description().params) {
          elements += param.count;
        }
        CHECK(plan.parameter_count == elements);
        CHECK(plan.tensor_rank_count < elements);
        CHECK(plan.tensor_ranks == 2);
        CHECK(plan.data_ranks == 2);
      }
    }
  }
  Divided const whole{{0, 1}, false};
  CHECK_THAT(thrown<ConfigError>([&] { static_cast<void>(plan(whole.model, config_of(1), 4)); }),
             Contains("zeroth.mesh.tensor is 2, but the model was made for 1 tensor ranks: give Model a TensorPart "
                      "with the same number"));
}

}  // namespace zeroth::testing
