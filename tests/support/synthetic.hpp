// SPDX-License-Identifier: Apache-2.0
/// A model with everything that a layout and a schedule can meet. Its "gradients" are cheap functions of parameters,
/// sample and element, so wrong values, stale gathers, lost contributions and double counting all show in the losses.
#pragma once
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/noise.hpp"
#include "zeroth/zeroth.hpp"

namespace zeroth::testing {

/// It has a tied parameter, frozen parameters, an all-frozen unit, a unit used twice, one that ranks skip at times, a
/// parameter whose gradient is never requested, and sizes that no world size divides.
struct SyntheticModel {
  struct Tensor : Param<1> {
    Tensor(Param<1> const& param, bool is_fp32 = false)  // NOLINT(google-explicit-constructor): it is one
        : Param<1>{param}, fp32{is_fp32} {}
    bool fp32;  // in a model of 16 bits, too
  };
  struct Block {
    Unit unit;
    std::vector<Tensor> trained;
    std::vector<Tensor> read;  // these and the trained ones are what forward reads
    int uses = 1;
  };
  Model model;
  std::vector<Block> blocks;

  /// With `some_fp32` some parameters are fp32 whatever the compute dtype: of units with others, all of a unit, frozen
  /// ones.
  explicit SyntheticModel(std::uint64_t seed = 11, bool some_fp32 = false) : model{seed} {
    auto const kept = some_fp32 ? std::optional{Dtype::fp32} : std::nullopt;
    auto const wte_unit = model.unit("embedding");
    auto const wte = model.param(wte_unit, "wte", {13 * 7}, Normal{0.5F});
    auto const wpe = model.param(wte_unit, "wpe", {5 * 7}, Uniform{-1, 1}, {.compute = kept});
    blocks.push_back({wte_unit, {wte, {wpe, some_fp32}}, {}});

    auto const first = model.unit("first");
    auto const w = model.param(first, "first.w", {1037}, Normal{0.3F});
    auto const frozen = model.param(first, "first.frozen", {211}, Normal{1}, {.trainable = false, .compute = kept});
    auto const b = model.param(first, "first.b", {3}, Constant{0.25F},
                               {.learning_rate_factor = 2, .weight_decay_factor = 0, .compute = kept});
    blocks.push_back({first, {w, {b, some_fp32}}, {{frozen, some_fp32}}});

    auto const cell = model.unit("cell", {.uses_per_micro_step = 2});
    blocks.push_back({cell, {model.param(cell, "cell.w", {300}, Normal{0.2F})}, {}, 2});

    auto const fixed = model.unit("fixed");
    blocks.push_back({fixed,
                      {},
                      {model.param(fixed, "fixed.w", {50},
                                   PerElement{[](std::int64_t i) { return 0.01F * static_cast<float>(i % 7); }},
                                   {.trainable = false})}});

    auto const expert = model.unit("expert");
    auto const routed = model.param(expert, "expert.w", {650}, Normal{0.2F}, {.compute = kept});
    blocks.push_back({expert, {{routed, some_fp32}}, {}});

    auto const last = model.unit("last");
    auto const large = model.param(last, "last.w", {3000}, Normal{0.1F});
    auto const never = model.param(last, "last.never", {77}, Constant{0.5F});
    blocks.push_back({last, {large}, {never}});

    auto const head = model.unit("head");
    auto const norm = model.param(head, "head.norm", {7}, Constant{1});
    model.tie(head, wte);
    blocks.push_back({head, {wte, norm}, {}});
  }
  static constexpr std::size_t expert_index = 4;
};

/// Gives the math of a test, which runs on the host, access to parameters and gradients. On the CPU it uses them in
/// place.
class Access {
 public:
  Access() = default;
  Access(Access const&) = delete;
  Access& operator=(Access const&) = delete;
  virtual ~Access() = default;
  /// Memory to read instead of `bytes` at `data`, until the next read(). In order with the engine's work.
  [[nodiscard]] virtual void const* read(void const* data, std::int64_t /*bytes*/) { return data; }
  /// Memory to change instead of `bytes` at `data`, until commit(). In order with the engine's work.
  [[nodiscard]] virtual void* edit(void* data, std::int64_t /*bytes*/) { return data; }
  virtual void commit() {}
};
/// Makes an Access that is ordered on this stream of the engine's.
using MakeAccess = std::function<std::unique_ptr<Access>(device::StreamRef)>;

struct TrainOptions {
  int steps = 4;
  bool skips = true;           ///< Ranks skip the expert in some micro-steps, and also a whole micro-step.
  bool evaluates = true;       ///< Between steps and between micro-steps.
  float overflow_at_step = 0;  ///< A gradient of this step is infinite, only on the last place. 0: never.
  bool waits = false;          ///< Sleeps at unusual points.
  /// If not 0, a step has this many micro-steps on all ranks together, their number in it selects what is done
  /// differently, and an evaluation has as many passes. So the work is the same for any number of ranks.
  int batch = 0;
  /// Called before the first step. Returns how many steps the run that is restored here had made.
  std::function<int(AnyEngine&)> begin = [](AnyEngine&) { return 0; };
  std::function<void(AnyEngine&, int step)> after_step = [](AnyEngine&, int) {};
  MakeAccess access = [](device::StreamRef) { return std::make_unique<Access>(); };
  /// Runs backward of a micro-step, including the ends of guards, while this thread waits.
  std::function<void(std::function<void()> const&)> backward_by = [](auto const& backward) { backward(); };
  bool some_fp32 = false;  ///< See SyntheticModel.
};

/// Runs `work` on a new thread and joins it, like a library whose autograd has its own threads.
inline void on_new_thread(std::function<void()> const& work) {
  std::exception_ptr error;
  std::thread{[&] {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
  }}.join();
  if (error) {
    std::rethrow_exception(error);
  }
}

struct Trained {
  std::vector<StepReport> reports;
  std::vector<float> evaluations;
  std::vector<float> parameters;  ///< All units' parameters as forward reads them at the end.
  MemoryBytes planned, peak;
};

/// The bits, so that NaN equals itself and -0 differs from 0. Ignores a NaN's payload, in which GPUs and processors
/// differ.
inline std::uint32_t bits_of_number(float value) {
  return std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value);
}
inline std::vector<std::uint32_t> bits_of(Trained const& trained) {
  std::vector<std::uint32_t> bits;
  auto const add = [&](float value) { bits.push_back(bits_of_number(value)); };
  for (auto const& report : trained.reports) {
    add(report.loss), add(report.grad_norm), add(report.learning_rate), add(report.loss_scale);
    bits.push_back(report.skipped ? 1 : 0);
  }
  for (auto const value : trained.evaluations) {
    add(value);
  }
  for (auto const value : trained.parameters) {
    add(value);
  }
  return bits;
}

/// Sleeps now and then, by a time that depends on `salt`.
inline void pause_somewhere(unsigned salt) {
  auto const hash = salt * 2654435761U;
  if (hash >> 30U == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds{(hash >> 10U) % 700});
  }
}

template <Element T, GradientOf<T> G>
class Trainer {
 public:
  Trainer(Job& job, SyntheticModel const& synthetic, Config const& config, TrainOptions const& options)
      : world_{job.world() - config.parameter_server().servers},
        synthetic_{synthetic},
        options_{options},
        engine_{job, synthetic.model, config},
        access_{options.access(engine_.compute_stream())},
        place_{engine_.place()} {}

  Trained run() {
    if (engine_.serves()) {
      engine_.serve();
      result_.planned = engine_.planned();
      result_.peak = engine_.peak();
      return std::move(result_);
    }
    for (int step = options_.begin(engine_) + 1; step <= options_.steps; ++step) {
      int micro_index = 0;
      auto const passes = engine_.micro_steps();
      for (auto pass = passes.begin(); pass != passes.end(); ++pass) {
        bool again = false;
        {
          auto micro = *pass;
          again = micro.runs_again();
          if (options_.skips && step == 2 && skips_whole(micro_index)) {
            micro.skip();
          } else {
            train(micro, step, micro_index);
          }
        }
        if (options_.evaluates && step == 3 && micro_index == 0 && !again) {
          evaluate(options_.batch > 0 ? options_.batch / world_ : 1);
        }  // before the step's other micro-steps
        micro_index += again ? 0 : 1;
      }
      if (options_.waits) {
        pause_somewhere(static_cast<unsigned>(step * 31 + place_));
      }
      if (auto const report = engine_.step()) {
        result_.reports.push_back(*report);
      }
      options_.after_step(engine_, step);
      if (options_.evaluates && step % 2 == 0) {
        evaluate(options_.batch > 0 ? options_.batch / world_ : 2);
      }
    }
    if (auto const report = engine_.finish()) {
      result_.reports.push_back(*report);
    }
    read_parameters();
    result_.planned = engine_.planned();
    result_.peak = engine_.peak();
    return std::move(result_);
  }
  Engine<T, G>& engine() { return engine_; }

 private:
  /// Selects the peculiarities of a micro-step: with a batch, its number in the batch.
  [[nodiscard]] int number_of(int micro_index) const noexcept {
    return options_.batch > 0 ? micro_index * world_ + place_ : micro_index + place_;
  }
  [[nodiscard]] bool skips_whole(int micro_index) const noexcept {
    return options_.batch > 0 ? number_of(micro_index) == options_.batch - 1
                              : micro_index == 0 && place_ == world_ - 1 && world_ > 1;
  }
  [[nodiscard]] bool overflows_in(int micro_index) const noexcept {
    return options_.batch > 0 ? number_of(micro_index) == options_.batch / 2 : place_ == world_ - 1;
  }
  template <class E>
  [[nodiscard]] E const* values(View<E const, 1> view) const {
    return static_cast<E const*>(access_->read(view.data(), view.count() * std::int64_t{sizeof(E)}));
  }
  /// Calls `f` with a view of the parameter, of its own type.
  template <class F>
  static auto with_view(Params<T> const& p, SyntheticModel::Tensor const& param, F const& f) {
    return param.fp32 ? f(p.template as<float>(param)) : f(p[param]);
  }
  double mean(Params<T> const& p, SyntheticModel::Tensor const& param) const {
    return with_view(p, param, [this](auto view) {
      double sum = 0;
      auto const* const at = this->values(view);
      for (std::int64_t i = 0; i < view.count(); ++i) {
        sum += static_cast<double>(to_float(at[i])) * static_cast<double>(1 + i % 3);
      }
      return sum / static_cast<double>(view.count());
    });
  }
  double read(Params<T> const& p, typename SyntheticModel::Block const& block) const {
    double sum = 0;
    for (auto const& param : block.trained) {
      sum += mean(p, param);
    }
    for (auto const& param : block.read) {
      sum += mean(p, param);
    }
    return sum;
  }
  void add(Backward<T, G> const& p, SyntheticModel::Tensor const& param, double state, std::int64_t sample, float seed,
           bool overflow) {
    if (param.fp32) {
      add_to(p.template as<float>(param), p.template grad_as<float>(param), state, sample, seed, overflow);
    } else {
      add_to(p[param], p.grad(param), state, sample, seed, overflow);
    }
  }
  template <class E, class OfGradient>
  void add_to(View<E const, 1> view, Gradient<OfGradient, 1> const& grad, double state, std::int64_t sample, float seed,
              bool overflow) {
    auto const* const value = values(view);
    auto* const sum =
        static_cast<OfGradient*>(access_->edit(grad.data(), view.count() * std::int64_t{sizeof(OfGradient)}));
    for (std::int64_t i = 0; i < view.count(); ++i) {
      float fresh = seed * (0.1F * to_float(value[i]) + 0.05F * static_cast<float>(state) + 0.2F * noise(sample, i));
      if (overflow && i == 2) {
        fresh = HUGE_VALF;
      }
      float const old = grad.beta() == 0 ? 0.0F : to_float(sum[i]);
      sum[i] = from_float<OfGradient>(old + fresh);
    }
    access_->commit();
  }
  void train(MicroStep<T, G>& micro, int step, int micro_index) {
    auto const& blocks = synthetic_.blocks;
    auto const sample = micro.first_sample();
    bool const skips_expert = options_.skips && (number_of(micro_index) + step) % 2 == 0;
    if (skips_expert) {
      micro.skip(blocks[SyntheticModel::expert_index].unit);
    }
    double state = noise(sample, 99);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (skips_expert && b == SyntheticModel::expert_index) {
        continue;
      }
      for (int use = 0; use < blocks[b].uses; ++use) {
        auto const p = micro.forward(blocks[b].unit);
        state = std::tanh(state + read(p, blocks[b]));
      }
      if (options_.waits) {
        pause_somewhere(static_cast<unsigned>(b) * 17U + static_cast<unsigned>(place_));
      }
    }
    float const seed =
        micro.report_loss(static_cast<float>(1 + state),
                          {.weight = (options_.batch > 0 ? number_of(micro_index) : micro_index) == 1 ? 0.5F : 1.0F});
    options_.backward_by([&] {
      for (std::size_t b = blocks.size(); b-- > 0;) {
        if (!skips_expert || b != SyntheticModel::expert_index) {
          backward(micro, b, state, seed,
                   static_cast<float>(step) == options_.overflow_at_step && overflows_in(micro_index));
        }
      }
    });
  }
  void backward(MicroStep<T, G>& micro, std::size_t b, double& state, float seed, bool overflows) {
    auto const& block = synthetic_.blocks[b];
    for (int use = 0; use < block.uses; ++use) {
      auto const p = micro.backward(block.unit);
      state = std::tanh(state + read(p, block));  // like recomputation
      for (auto const& param : block.trained) {
        bool const overflow = overflows && b == 1;
        add(p, param, state, micro.first_sample() + use, seed, overflow);
      }
    }
  }
  void evaluate(int passes) {
    auto const evaluation = engine_.evaluation(passes);
    int pass_index = 0;
    for (auto pass : evaluation) {
      int const number = options_.batch > 0 ? number_of(pass_index++) : place_;
      double state = noise(pass.first_sample(), 5);
      for (auto const& block : synthetic_.blocks) {
        auto const p = pass.forward(block.unit);
        state = std::tanh(state + read(p, block));
      }
      pass.report_loss(static_cast<float>(state + 2), {.weight = number == 0 ? 2.0F : 1.0F});
    }
    result_.evaluations.push_back(evaluation.mean_loss());
  }
  void read_parameters() {
    for (auto pass : engine_.evaluation(1)) {
      for (auto const& block : synthetic_.blocks) {
        auto const p = pass.forward(block.unit);
        auto const keep = [&](SyntheticModel::Tensor const& param) {
          with_view(p, param, [this](auto view) {
            auto const* const at = values(view);
            for (std::int64_t i = 0; i < view.count(); ++i) {
              result_.parameters.push_back(to_float(at[i]));
            }
          });
        };
        for (auto const& param : block.trained) {
          keep(param);
        }
        for (auto const& param : block.read) {
          keep(param);
        }
      }
      pass.report_loss(0);
    }
  }

  int world_;
  SyntheticModel const& synthetic_;
  TrainOptions options_;
  Engine<T, G> engine_;
  std::unique_ptr<Access> access_;
  int place_;  // selects what ranks do differently
  Trained result_;
};

/// Trains on this rank with the types that the file selects.
inline Trained train_synthetic(Job& job, Config const& config, TrainOptions const& options = {}) {
  Trained result;
  SyntheticModel const synthetic{11, options.some_fp32};
  with_precision(config, [&]<class T, class G>(Precision<T, G>) {
    result = Trainer<T, G>{job, synthetic, config, options}.run();
  });
  return result;
}

}  // namespace zeroth::testing
