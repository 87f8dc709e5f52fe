// SPDX-License-Identifier: Apache-2.0
#include "engine_scenarios.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "engine/small_model.hpp"
#include "few_threads.hpp"
#include "parity/pipeline.hpp"

namespace zeroth::testing {
namespace {

constexpr int steps = 6;  // a difference is reported one step later at the latest

void micro_step_in_order(MicroStep<float, float>& micro, SmallModel const& small, bool swap) {
  for (std::size_t const u : {swap ? 1U : 0U, swap ? 0U : 1U, 2U}) {
    auto const p = micro.forward(small.units[u]);
  }
  backward(micro, small, micro.report_loss(1));
}

void befall(Fault fault) {
  if (fault == Fault::throws) {
    throw std::runtime_error{"the data are gone"};
  }
  if (fault == Fault::dies) {
    ::raise(SIGKILL);
  }
  while (fault == Fault::freezes) {
    std::this_thread::sleep_for(std::chrono::seconds{1});
  }
}

}  // namespace

void take_units_in_another_order(Job& job, int stage) {
  SmallModel const small;
  Engine<float> engine{job, small.model, small_config(stage)};
  for (int step = 0; step < steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      micro_step_in_order(micro, small, step == 1 && job.rank() == 1);
    }
    static_cast<void>(engine.step());
  }
}

void evaluate_alone(Job& job, int stage) {
  SmallModel const small;
  Engine<float> engine{job, small.model, small_config(stage)};
  for (int step = 0; step < steps; ++step) {
    all_micro_steps(engine, small);
    static_cast<void>(engine.step());
    if (step == 0 && job.rank() == 1) {
      for (auto pass : engine.evaluation(1)) {
        forward(pass, small);
        pass.report_loss(1);
      }
    }
  }
}

void train_in_groups(Job& job, Fault fault) {
  SmallModel const small;
  auto const config = small_config(3).with(R"({"zero_optimization": {
      "zero_hpz_partition_size": 2, "overlap_comm": false, "stage3_prefetch_bucket_size": 0},
      "zeroth": {"timeout_ms": 3000}})");
  Engine<float> engine{job, small.model, config};
  for (int step = 0; step < steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      bool const now = step == 1 && fault != Fault::none;
      if (now && job.rank() < 2) {
        std::this_thread::sleep_for(std::chrono::seconds{1});
      }
      if (now && job.rank() == 3) {
        befall(fault);
      }
      micro_step_in_order(micro, small, now && job.rank() == 3);
    }
    static_cast<void>(engine.step());
  }
}

/// The rank of stage `victim` has `fault` in action `in_action` of the second step, counted from 1; 0: in the last.
void train_chain(Job& job, Chain const& chain, Fault fault, int victim, int in_action) {
  constexpr int micro_steps = 4;
  auto const config = Config::from_json(fmt::format(R"({{
      "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": {}, "optimizer": {{"type": "AdamW"}},
      "zero_optimization": {{"stage": 3}}, "zeroth": {{"mesh": {{"pipeline": 3}}, "timeout_ms": 3000}}}})",
                                                    micro_steps));
  Mesh mesh{job, config};
  Engine<float> engine{mesh, chain.model, config};
  int const which = in_action > 0 ? in_action : 2 * micro_steps;  // forward and backward of each
  for (int step = 0; step < steps; ++step) {
    int actions = 0;
    ChainOptions options;
    options.in_action = [&] {
      if (step == 1 && mesh.place().stage == victim && ++actions == which) {
        befall(fault);
      }
    };
    run_actions(engine, chain, options, step, false);
    static_cast<void>(engine.step());
  }
}

void train_in_stages(Job& job, Fault fault, int victim) { train_chain(job, Chain{}, fault, victim, 2); }

void train_with_ties(Job& job, Fault fault) {
  train_chain(job, Chain{Chain::Ties::across}, fault, 0, /* the last */ 0);
}

void train_with_a_server(Job& job, Fault fault, int victim) {
  SmallModel const small;
  auto const config = small_config(0).with(R"({"zeroth": {"parameter_server": {"servers": 1}, "timeout_ms": 3000}})");
  Engine<float> engine{job, small.model, config};
  if (engine.serves()) {
    std::thread killer;
    if (job.rank() == victim && fault == Fault::dies) {
      killer = std::thread{[] {
        std::this_thread::sleep_for(std::chrono::milliseconds{300});
        befall(Fault::dies);
      }};
    } else if (job.rank() == victim) {
      befall(fault);
    }
    engine.serve();
    return killer.joinable() ? killer.join() : void();
  }
  for (int step = 0; step < steps; ++step) {
    if (step == 1 && job.rank() == victim) {
      befall(fault);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{fault == Fault::none ? 0 : 200});
    all_micro_steps(engine, small);
    static_cast<void>(engine.step());
  }
  static_cast<void>(engine.finish());
}

void train_on_tensor_ranks(Job& job, Fault fault, TensorPlace place) {
  constexpr std::chrono::milliseconds timeout{3000};
  auto const config = Config::from_json(fmt::format(R"({{
      "train_micro_batch_size_per_gpu": 1, "optimizer": {{"type": "AdamW"}}, "zero_optimization": {{"stage": 2}},
      "zeroth": {{"mesh": {{"tensor": {}}}, "timeout_ms": {}}}}})",
                                                    job.world(), timeout.count()));
  Mesh mesh{job, config};
  Model model{5, mesh.tensor_part()};
  auto const unit = model.unit("block");
  auto const weight = model.param(unit, "block.w", {4, 3 * job.world()}, Normal{0.5F}, {.cut = {{.dim = 1}}});
  auto const gain = model.param(unit, "block.gain", {4}, Constant{1}, {.partial = true});
  Engine<float> engine{mesh, model, config};
  TensorParallel tp{mesh.tensor(), {.sequence = true, .comm = {.timeout = timeout}}};
  std::vector<float> values(static_cast<std::size_t>(8 * job.world()), 1.0F);
  View<float, 2> const rows{values.data(), {2 * job.world(), 4}};
  for (int step = 0; step < steps; ++step) {
    auto const come_to = [&](TensorPlace here) {
      if (step == 1 && job.rank() == 1 && here == place) {
        befall(fault);
      }
    };
    for (auto micro : engine.micro_steps()) {
      {
        auto const p = micro.forward(unit);
        come_to(TensorPlace::enter);
        static_cast<void>(tp.enter(rows).wait());
        come_to(TensorPlace::leave);
        static_cast<void>(tp.leave(rows).wait());
      }
      auto const seed = micro.report_loss(1);
      auto const p = micro.backward(unit);
      come_to(TensorPlace::leave_backward);
      static_cast<void>(tp.leave_backward(rows).wait());
      come_to(TensorPlace::enter_backward);
      static_cast<void>(tp.enter_backward(rows).wait());
      add(p.grad(weight), std::vector<float>(12, seed));
      add(p.grad(gain), std::vector<float>(4, seed));
      come_to(TensorPlace::parts);
    }
    static_cast<void>(engine.step());
  }
}

void train_with_muon(Job& job, Fault fault) {
  int step = 0;
  auto const multiply = optim::Multiply{[&](optim::MatrixProduct const& product) {
    if (step == 1 && job.rank() == 1) {
      befall(fault);
    }
    std::fill_n(product.sums, product.rows * product.columns, 0.0F);
  }};
  auto const config = Config::from_json(R"({
      "train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2},
      "zeroth": {"timeout_ms": 3000}})")
                          .with(multiply);
  Model model;
  auto const unit = model.unit("block");
  std::vector<Param<2>> matrices;
  for (int rank = 0; rank < job.world(); ++rank) {
    matrices.push_back(model.param(unit, fmt::format("block.w{}", rank), {4, 4}, Normal{0.5F}, {.matrix = true}));
  }
  Engine<float> engine{job, model, config};
  for (; step < steps; ++step) {
    for (auto micro : engine.micro_steps()) {
      static_cast<void>(micro.forward(unit));
      auto const seed = micro.report_loss(1);
      auto const p = micro.backward(unit);
      for (auto const& matrix : matrices) {
        add(p.grad(matrix), std::vector<float>(16, seed));
      }
    }
    static_cast<void>(engine.step());
  }
}

void throw_in_training(Job& job, char const* flights) {
  SmallModel const small;
  Engine<float> engine{job, small.model,
                       small_config(3, {.zeroth = fmt::format(R"(, "flight_recorder": "{}")", flights)})};
  for (int step = 0; step < steps; ++step) {
    all_micro_steps(engine, small);
    static_cast<void>(engine.step());
    if (job.rank() == 1) {
      throw std::runtime_error{"the data are gone"};
    }
  }
}

void end_the_engine_in_its_pass(Job& job) {
  SmallModel const small;
  std::optional<Engine<float>> engine{std::in_place, job, small.model, small_config(0)};
  for (int step = 0; step < steps; ++step) {
    for (auto micro : engine->micro_steps()) {
      micro_step(micro, small);
      if (job.rank() == 1) {
        engine.reset();
      }
    }
    static_cast<void>(engine->step());
  }
}

void keep_errors(Job& job) {
  try {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(3)};
    for (auto micro : engine.micro_steps()) {
      if (job.rank() == 1) {
        throw std::runtime_error{"the data are gone"};
      }
      micro_step(micro, small);
    }
  } catch (std::exception const&) {  // like a program that logs the error and continues to its end
  }
}

void leave_a_micro_step(Job& job) {
  SmallModel const small;
  Engine<float> engine{job, small.model, small_config(0)};
  for (auto micro : engine.micro_steps()) {
    forward(micro, small);
    break;
  }
}

void save_and_load_in_vain(Job& job) {
  auto const attempt = [&](auto const& call) {
    try {
      call();
    } catch (SystemError const& error) {
      fmt::print("{}\n", error.what());
      std::fflush(stdout);
    }
  };
  for (int const stage : {0, 3}) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(stage)};
    train(engine, small, 1);
    attempt([&] { engine.save_weights("none/weights"); });
    engine.save_weights("weights");
    attempt([&] { engine.load_weights("nowhere"); });
    attempt([&] { engine.load_weights(job.rank() == 1 ? "not here" : "weights"); });
    engine.load_weights("weights");
    train(engine, small, 2);
  }
}

void meet(Job& job) {
  auto const device = device::make_cpu_device();
  job.communicator().barrier(device->compute(), {"meeting", ""});
}

void run_out_of_threads(Job& job) {
  if (job.rank() == 1) {
    leave_threads(0);
    static_cast<void>(device::make_cpu_device()->make_stream("gather", device::Overlap::on));
  }
  meet(job);
}

}  // namespace zeroth::testing
