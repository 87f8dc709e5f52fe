// SPDX-License-Identifier: Apache-2.0
/// Checks the boundary between a program and the library, which may be shared: types known at run time, the program's
/// own optimizer, errors that are caught by type, values that are inspected. Prints problems.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>
#include <zeroth/simulate/simulate.hpp>
#include <zeroth/tool/config/document.hpp>
#include <zeroth/tool/core/input_file.hpp>
#include <zeroth/tool/core/whole_file.hpp>
#include <zeroth/zeroth.hpp>

namespace {

void expect(bool condition, char const* what) {
  if (!condition) {
    throw std::logic_error{what};
  }
}

/// Whether `f` throws `E`. Other exceptions propagate to main().
template <class E, class F>
bool throws(F const& f) {
  try {
    f();
    return false;
  } catch (E const&) {
    return true;
  }
}

zeroth::Config stage_3() {
  return zeroth::Config::from_json(
      R"({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {"stage": 3}})");
}

/// Rank r has r + 1 numbers; every rank gets those of all.
void exchange(zeroth::Job& job) {
  zeroth::Collectives beside{job, "uneven"};
  std::vector<std::int64_t> counts;
  std::size_t total = 0;
  for (int rank = 0; rank < job.world(); ++rank) {
    counts.push_back(rank + 1);
    total += static_cast<std::size_t>(rank + 1);
  }
  std::vector<float> const mine(static_cast<std::size_t>(job.rank() + 1), static_cast<float>(job.rank()));
  std::vector<float> all(total);
  auto const list =
      zeroth::comm::all_gather_v(beside.communicator(), mine.data(), all.data(), counts, zeroth::Dtype::fp32);
  beside.start(list, "numbers").wait();
  expect(all.front() == 0 && all.back() == static_cast<float>(job.world() - 1), "all_gather_v");
  auto const texts = job.all_gather(std::string(mine.size(), 'x'));
  expect(texts.back().size() == static_cast<std::size_t>(job.world()), "all_gather of bytes");
}

/// Three steps of plain descent along a gradient of ones, at a rate of a quarter: from 1 to 1/4.
void train(zeroth::Job& job) {
  zeroth::optim::CustomRule const descent{
      .type = "descent", .kept_states = {}, .update = [](zeroth::optim::CustomRuleElements const& elements) {
        std::ranges::transform(elements.master, elements.gradient, elements.master.begin(),
                               [&](float weight, float slope) { return weight - elements.learning_rate * slope; });
      }};
  zeroth::Model model;
  auto const unit = model.unit("only");
  zeroth::AnyParam const weight = model.param(unit, "weight", {1000}, zeroth::Constant{1});
  zeroth::AnyEngine engine{job, model, stage_3().with(descent)};
  for (int step = 0; step < 3; ++step) {
    for (auto micro : engine.micro_steps()) {
      { auto const parameters = micro.forward(unit); }
      float const seed = micro.report_loss(1);
      auto const parameters = micro.backward(unit);
      auto gradient = parameters.grad(weight);
      auto const count = static_cast<std::size_t>(gradient.count());
      std::ranges::fill(std::span{static_cast<float*>(std::move(gradient).accumulator()), count}, seed);
    }
    engine.step({.learning_rate = 0.25F});
  }
  auto const report = engine.finish();
  expect(report && report->step == 3, "the last report is not that of the third step");
  std::vector<float> values(1000);
  engine.read(weight, values);
  expect(std::ranges::all_of(values, [](float value) { return value == 0.25F; }), "three steps did not lead to 1/4");
  values.pop_back();
  expect(throws<zeroth::ContractError>([&] { engine.read(weight, values); }), "no ContractError of a short read");
}

/// A model with an additional parameter resumes from a checkpoint that lacks it.
void go_on(zeroth::Job& job, std::filesystem::path const& folder) {
  auto const config =
      zeroth::Config::from_json(R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1},
                                                    "bf16": {"enabled": true}})");
  {
    zeroth::Model model;
    static_cast<void>(model.param(model.unit("trunk"), "weight", {1000}, zeroth::Constant{3}));
    zeroth::AnyEngine{job, model, config}.save(folder).wait();
  }
  zeroth::Model model;
  zeroth::AnyParam const trunk = model.param(model.unit("trunk"), "body.weight", {1000}, zeroth::Constant{1});
  zeroth::AnyParam const head =
      model.param(model.unit("head"), "head.weight", {10}, zeroth::Constant{1}, {.compute = zeroth::Dtype::fp32});
  zeroth::AnyEngine engine{job, model, config};
  auto const renamed = [](std::string const& name) { return std::optional{name == "body.weight" ? "weight" : name}; };
  engine.restore(folder, {.of = zeroth::RestoreOf::weights, .saved_name = renamed, .partial = true});
  std::vector<float> values(1000);
  engine.read(trunk, values);
  expect(values.back() == 3, "the trunk does not have what was saved");
  values.resize(10);
  engine.read(head, values);
  expect(values.back() == 1, "the head does not keep its start");
}

void inspect() {
  zeroth::Model model;
  static_cast<void>(model.param(model.unit("only"), "weight", {1000}, zeroth::Constant{1}));
  auto const plan = zeroth::plan(model, stage_3(), 2);
  expect(!zeroth::explain_plan(plan).empty(), "the plan has no words");
  zeroth::simulate::UnitWork const work{.forward_flops = 1e9, .backward_flops = 2e9};
  auto const machine = zeroth::simulate::machine_of(zeroth::simulate::machine_presets().front());
  expect(zeroth::simulate::run(model, stage_3(), 2, {&work, 1}, machine).step_ms > 0, "a simulated step takes no time");
  zeroth::config::Problems problems;
  auto const object = zeroth::config::read_document(R"({"a": 1, "a": 2})", problems);
  expect(!problems.empty() && zeroth::config::find(object, "a") != nullptr, "a key that is given twice is no problem");
}

void refuse() {
  namespace fs = std::filesystem;
  expect(throws<zeroth::ConfigError>([] { static_cast<void>(zeroth::Config::from_json(R"({"fp16": {"stage": 3}})")); }),
         "no ConfigError of an unknown key");
  expect(throws<zeroth::Error>([] { static_cast<void>(zeroth::Config::from_json("[]")); }), "no Error of an array");
  expect(throws<zeroth::SystemError>([] { zeroth::write_whole_file("notes", "no/such/folder/notes", "none"); }),
         "no SystemError of a folder that is not there");
  expect(throws<zeroth::Unreadable>([] { static_cast<void>(zeroth::read_text(fs::temp_directory_path())); }),
         "no Unreadable of a folder");
}

}  // namespace

int main() {
  try {
    inspect();
    refuse();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  auto const folder = std::filesystem::current_path() / "saved by the consumer";
  int const status = zeroth::launch({.thread_ranks = 2}, [&folder](zeroth::Job& job) {
    exchange(job);
    train(job);
    go_on(job, folder);
  });
  std::filesystem::remove_all(folder);
  bool lost = false;  // rank 0's own, and read when all ranks have ended
  int const failed = zeroth::launch({.thread_ranks = 2}, [&lost](zeroth::Job& job) {
    if (job.rank() == 1) {
      throw std::runtime_error{"rank 1 has had enough"};
    }
    std::vector<double> values(1);
    lost = throws<zeroth::PeerError>([&] { job.sum(values); });
  });
  if (status != 0 || failed != 1 || !lost) {
    std::fprintf(stderr, "training ended with %d, the other job with %d, PeerError: %d\n", status, failed, lost);
    return 1;
  }
  std::puts("the border holds");
}
