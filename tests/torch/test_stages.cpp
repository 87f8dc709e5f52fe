// SPDX-License-Identifier: Apache-2.0
/// Modules train the same at every stage, bit for bit, and the same as libtorch alone up to rounding.
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/folder.hpp"
#include "support/job.hpp"
#include "torch_catch.hpp"
#include "train.hpp"

namespace zeroth::testing {
namespace {

struct Named {
  char const* name;
  Program (*make)(Job&);
};
Named const programs[] = {
    {"gpt", gpt_program}, {"vision", vision_program}, {"odd", odd_program}, {"views", views_program}};

/// The largest difference, relative to the largest value.
double difference(std::vector<float> const& a, std::vector<float> const& b) {
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return most / largest;
}

void expect_same_at_every_stage(Named const& program, File file, int world) {
  file.stage = 0;
  auto const expected = train_on_threads(world, file.config(), program.make);
  REQUIRE(expected.losses.size() == 4);
  REQUIRE(std::isfinite(expected.losses.back()));
  REQUIRE(expected.evaluation > 0);
  for (file.stage = 1; file.stage <= 3; ++file.stage) {
    INFO(program.name << " at stage " << file.stage << " on " << world << " ranks; " << file.more << file.zeroth);
    auto const trained = train_on_threads(world, file.config(), program.make);
    CHECK(bits_of(trained) == bits_of(expected));
    CHECK(trained.buffers == expected.buffers);
  }
}

TEST_CASE("modules train the same at stages 0 to 3") {
  for (auto const& program : programs) {
    expect_same_at_every_stage(program, {}, 2);
  }
  expect_same_at_every_stage(programs[0], {.micro = 1}, 3);
}

TEST_CASE("a micro-step that runs twice finds buffers and, on one rank, the generator as the first run did") {
  auto const trained = [](int world, MakeProgram const& make, char const* zeroth) {
    torch::manual_seed(5);
    return train_on_threads(world, File{.stage = 2, .accumulation = 2, .zeroth = zeroth}.config(), make);
  };
  for (auto const& [world, make] :
       {std::pair<int, MakeProgram>{2, vision_program}, {2, views_program}, {1, dropout_going_on}}) {
    auto const once = trained(world, make, "");
    auto const twice = trained(world, make, R"("replay_every": 1)");
    CHECK(bits_of(twice) == bits_of(once));
    CHECK(twice.buffers == once.buffers);
  }
}

TEST_CASE("modules train the same at stages 0 to 3 in several micro-steps") {
  for (auto const* const reduce :
       {R"("reduce_gradients": "every_micro_step")", R"("reduce_gradients": "last_micro_step")"}) {
    for (auto const& program : {programs[0], programs[2]}) {
      expect_same_at_every_stage(program, {.accumulation = 2, .zeroth = reduce}, 2);
    }
  }
}

TEST_CASE("a unit that some ranks skip trains the same at stages 0 to 3, also inside a root with parameters") {
  std::string const reduce = R"("reduce_gradients": "every_micro_step")";
  expect_same_at_every_stage({"experts", experts_program}, {.accumulation = 2, .zeroth = reduce}, 2);
  expect_same_at_every_stage({"experts", experts_program}, {}, 3);
}

TEST_CASE("modules train the same at stages 0 to 3 in 16 bits with fp32 masters") {
  expect_same_at_every_stage(programs[0], {.more = R"("bf16": {"enabled": true})"}, 2);
  expect_same_at_every_stage(programs[0],
                             {.more = R"("bf16": {"enabled": true})", .zeroth = R"("gradient_dtype": "fp32")"}, 2);
  expect_same_at_every_stage(programs[2], {.more = R"("bf16": {"enabled": true})"}, 2);
  expect_same_at_every_stage(programs[0], {.more = R"("fp16": {"enabled": true, "initial_scale_power": 10})"}, 2);
}

TEST_CASE("every optimizer trains modules the same at stages 0 and 3") {
  for (std::string const type : {"AdamW", "Adam", "SGD", "Adagrad", "RMSprop", "Lion"}) {
    auto const with = [&](int stage) {
      return File{.stage = stage,
                  .more = R"("gradient_clipping": 0.5)",
                  .zeroth = R"("skip_nonfinite": true)",
                  .optimizer = R"("type": ")" + type + R"(", "params": {"lr": 1e-3})"}
          .config();
    };
    INFO(type);
    CHECK(bits_of(train_on_threads(2, with(0), gpt_program)) == bits_of(train_on_threads(2, with(3), gpt_program)));
  }
}

TEST_CASE("groups, persistent parameters, and states and parameters on a disk train modules like stage 0") {
  Folder const folder;
  auto const parameters =
      R"("offload_param": {"device": "nvme", "max_in_cpu": 0, "nvme_path": ")" + folder.path().string() + R"("})";
  auto const disk = R"("offload_optimizer": {"device": "nvme", "nvme_path": ")" + folder.path().string() + R"("})";
  for (auto const* const program : {&programs[0], &programs[1], &programs[2]}) {
    auto const whole = bits_of(train_on_threads(4, File{.micro = 1}.config(), program->make));
    for (std::string const& keys :
         {std::string{R"("zero_hpz_partition_size": 2)"}, std::string{R"("mics_shard_size": 2)"}, disk,
          R"("zero_hpz_partition_size": 2, )" + disk, parameters}) {
      INFO(program->name << ", " << keys);
      File const file{.stage = 3, .micro = 1, .zero = keys};
      CHECK(bits_of(train_on_threads(4, file.config(), program->make)) == whole);
    }
    std::string const persistent = R"("stage3_param_persistence_threshold": 100)";
    CHECK(bits_of(train_on_threads(4, File{.stage = 3, .micro = 1, .zero = persistent}.config(), program->make)) ==
          bits_of(train_on_threads(4, File{.micro = 1, .zero = persistent}.config(), program->make)));
  }
}

TEST_CASE("modules train and evaluate like libtorch's AdamW, to rounding") {
  constexpr int steps = 6;
  constexpr double clip = 0.04;  // below all norms
  for (auto const& program : programs) {
    for (bool const clips : {false, true}) {
      INFO(program.name << (clips ? ", clipped" : ""));
      auto const more = R"("gradient_clipping": )" + std::to_string(clips ? clip : 0.0);
      File const file{.stage = 3, .micro = 4, .more = more, .learning_rate = 1e-3};
      auto const trained = train_on_threads(2, file.config(), program.make, {.steps = steps});
      auto const plain =
          train_plainly(program.make, 8, steps, file.learning_rate, clips ? std::optional{clip} : std::nullopt);
      std::ostringstream values;
      values.precision(9);
      for (std::size_t i = 0; i < trained.losses.size(); ++i) {
        values << trained.losses[i] << " " << plain.losses[i] << ", norms " << trained.norms[i] << " " << plain.norms[i]
               << "\n";
      }
      INFO(values.str());
      CHECK(*std::ranges::min_element(plain.norms) > clip);
      CHECK(difference({trained.losses[0]}, {plain.losses[0]}) < 1e-6);
      CHECK(difference({trained.norms[0]}, {plain.norms[0]}) < 1e-5);
      CHECK(difference(trained.losses, plain.losses) < 2e-5);
      CHECK(difference(trained.norms, plain.norms) < 2e-4);
      CHECK(difference({trained.evaluation}, {plain.evaluation}) < 2e-5);
    }
  }
}

TEST_CASE("loaded TorchScript modules train the same at stages 0 to 3, and like libtorch alone") {
  expect_same_at_every_stage({"scripted", scripted_program}, {}, 2);
  File const file{.stage = 3, .micro = 4, .more = R"("gradient_clipping": 0.0)", .learning_rate = 1e-3};
  auto const trained = train_on_threads(1, file.config(), scripted_program);
  auto const plain = train_plainly(scripted_program, 4, 4, file.learning_rate);
  CHECK(difference(trained.losses, plain.losses) < 2e-5);
}

/// The GPT with forward under autocast.
Program gpt_in_autocast(Job& job) {
  auto program = gpt_program(job);
  program.loss = [forward = program.loss](std::int64_t first, std::int64_t count) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    auto loss = forward(first, count);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return loss;
  };
  return program;
}

TEST_CASE("autocast trains the same at stages 0 to 3, and like libtorch alone") {
  expect_same_at_every_stage({"gpt in autocast", gpt_in_autocast}, {}, 2);
  File const file{.stage = 3, .micro = 4, .learning_rate = 1e-3};
  auto const trained = train_on_threads(1, file.config(), gpt_in_autocast);
  auto const plain = train_plainly(gpt_in_autocast, 4, 4, file.learning_rate);
  auto const without = train_plainly(gpt_program, 4, 4, file.learning_rate);
  CHECK(trained.losses[0] == plain.losses[0]);
  CHECK(plain.losses[0] != without.losses[0]);
  CHECK(difference(trained.losses, plain.losses) < 1e-3);  // products round to 8 bits
}

TEST_CASE("factors of learning rates that are set later train like those of options, by names") {
  auto const train_with = [](int stage, float of_options, std::optional<float> later) {
    std::vector<float> weights;
    auto const outcome = run_job(1, [&](Job& job) {
      auto program = gpt_program(job);
      auto const is_bias = [](std::string const& name) { return name.ends_with(".bias"); };
      program.options.parameter = [&](std::string const& name) {
        return ParamOptions{.learning_rate_factor = is_bias(name) ? of_options : 1};
      };
      torch_adapter::Trainer trainer{job, File{.stage = stage}.config(), *program.module, program.options};
      trainer.set_learning_rate_factors([&](std::string const& name) { return is_bias(name) ? later : std::nullopt; });
      for (int step = 0; step < 3; ++step) {
        for (auto micro : trainer.micro_steps()) {
          micro.backward(program.loss(micro.first_sample(), trainer.micro_batch()));
        }
        trainer.step();
      }
      trainer.finish();
      for (auto const& item : program.module->named_parameters()) {
        auto const row = trainer.read(item.key()).view({-1});
        weights.insert(weights.end(), row.data_ptr<float>(), row.data_ptr<float>() + row.numel());
      }
    });
    REQUIRE(messages_of(outcome) == "");
    return weights;
  };
  auto const expected = train_with(0, 0.25F, {});
  CHECK(train_with(0, 1, {}) != expected);
  for (int stage : {0, 3}) {
    CHECK(train_with(stage, 1, 0.25F) == expected);
  }
}

TEST_CASE("units with recompute train the same") {
  for (int stage : {0, 2, 3}) {
    File const file{.stage = stage, .accumulation = 2};
    INFO("stage " << stage);
    CHECK(bits_of(train_on_threads(2, file.config(), gpt_recomputed)) ==
          bits_of(train_on_threads(2, file.config(), gpt_program)));
    // The gradients of a parameter's uses are added one by one here, and in autograd's order otherwise.
    auto const again = train_on_threads(2, file.config(), odd_recomputed);
    auto const kept = train_on_threads(2, file.config(), odd_program);
    CHECK(difference(again.losses, kept.losses) < 1e-5);
    CHECK(difference(again.norms, kept.norms) < 1e-4);
  }
}

}  // namespace
}  // namespace zeroth::testing
