// SPDX-License-Identifier: Apache-2.0
/// With zeroth.poison, memory kept beyond its guard is NaN at every stage, and training is unchanged.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/reports.hpp"

namespace zeroth::testing {
namespace {

constexpr char const* poison = R"(, "poison": true)";

template <Element T>
bool all_nan(T const* values, std::int64_t count) {
  return std::all_of(values, values + count, [](T value) { return std::isnan(to_float(value)); });
}
template <Element T>
bool none_nan(T const* values, std::int64_t count) {
  return std::none_of(values, values + count, [](T value) { return std::isnan(to_float(value)); });
}

/// Collects failed expectations as text.
class Complaints {
 public:
  void expect(bool condition, std::string const& what) { text_ += condition ? "" : what + "\n"; }
  [[nodiscard]] std::string const& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Reads the first unit's parameters after their guard has ended, and while later guards are open.
template <Element T>
void keep_parameters(Pass<T>& pass, SmallModel const& small, std::string const& where, Complaints& complaints) {
  std::vector<std::vector<T const*>> kept;
  auto const all_are_nan = [&](std::string const& when) {
    for (auto const& views : kept) {
      complaints.expect(all_nan(views[0], 300) && (views.size() == 1 || all_nan(views[1], 50)), where + when);
    }
  };
  for (std::size_t u = 0; u < small.units.size(); ++u) {
    {
      auto const p = pass.forward(small.units[u]);
      all_are_nan(", while another guard is open");
      kept.push_back({p[small.weights[u]].data()});
      if (u == 1) {
        kept.back().push_back(p[small.frozen].data());
        complaints.expect(none_nan(kept.back()[1], 50), where + ", frozen, in its guard");
      }
      complaints.expect(none_nan(kept.back()[0], 300), where + ", in its guard");
    }
    all_are_nan(", after its guard");
  }
}

template <Element T, GradientOf<T> G>
void keep_gradients(MicroStep<T, G>& micro, SmallModel const& small, float seed, Complaints& complaints) {
  std::vector<G const*> kept;
  auto const all_are_nan = [&](char const* when) {
    for (auto const* const gradient : kept) {
      complaints.expect(all_nan(gradient, 300), when);
    }
  };
  for (auto u = small.units.size(); u-- > 0;) {
    {
      auto const p = micro.backward(small.units[u]);
      all_are_nan("a gradient, while another guard is open");
      for (int times = 0; times < 2; ++times) {
        contribute(p, small.weights[u], micro.first_sample() + times, seed);
      }
      auto const grad = p.grad(small.weights[u]);
      complaints.expect(grad.beta() == 1 && none_nan(grad.data(), 300), "a gradient, in its guard");
      kept.push_back(grad.data());
    }
    all_are_nan("a gradient, after its guard");
  }
}

/// Trains two steps, and reports memory that is still readable after its guard.
template <Element T, GradientOf<T> G>
std::string keep_everything(Job& job, Config const& config) {
  Complaints complaints;
  SmallModel const small;
  Engine<T, G> engine{job, small.model, config};
  for (int step = 0; step < 2; ++step) {
    for (auto micro : engine.micro_steps()) {
      keep_parameters(micro, small, "a parameter in training", complaints);
      keep_gradients(micro, small, micro.report_loss(1), complaints);
    }
    for (auto pass : engine.evaluation(1)) {
      keep_parameters(pass, small, "a parameter in evaluation", complaints);
      pass.report_loss(1);
    }
    engine.step();
  }
  complaints.expect(std::isfinite(engine.finish()->grad_norm), "the norm");
  complaints.expect(engine.peak() == engine.planned(), "bytes");
  return complaints.text();
}

}  // namespace

TEST_CASE("memory that is used after its guard is NaN at every stage") {
  for (auto const* const more : {"", R"(, "bf16": {"enabled": true})"}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
        INFO(fmt::format("stage {}, {}{}", stage, reduce, more));
        auto const keys = fmt::format(R"(, "poison": true, "reduce_gradients": "{}")", reduce);
        auto const config = small_config(stage, {.zeroth = keys, .more = more});
        std::vector<std::string> complaints(2);
        auto const outcome = run_job(2, [&](Job& job) {
          with_precision(config, [&]<class T, class G>(Precision<T, G>) {
            complaints[static_cast<std::size_t>(job.rank())] = keep_everything<T, G>(job, config);
          });
        });
        CHECK(messages_of(outcome) == "");
        CHECK(complaints == std::vector<std::string>(2));
      }
    }
  }
}

TEST_CASE("poison does not change training, and its copies are in the plan") {
  SmallModel const small;
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
      INFO(fmt::format("stage {}, {}", stage, reduce));
      auto const config = [&](char const* more) {
        return small_config(stage, {.zeroth = fmt::format(R"(, "reduce_gradients": "{}"{})", reduce, more)});
      };
      auto const weights = [&](Config const& file) {
        return run(3, file,
                   [](Job&, Engine<float>& engine, SmallModel const& model) {
                     Seen seen{train(engine, model, 3), {}};
                     seen.weights = read_weights(engine, model);
                     return seen;
                   })
            .front()
            .weights;
      };
      CHECK(weights(config(poison)) == weights(config("")));
      auto const with = plan(small.model, config(poison), 3).bytes;
      auto const without = plan(small.model, config(""), 3).bytes;
      // Three units of 300 elements in slices of 128, and 50 frozen ones: each is 384 with padding.
      CHECK(with.scratch - without.scratch == (4 + 3) * 384 * 4);
      CHECK(with.total() - without.total() == with.scratch - without.scratch);
      CHECK_THAT(explain_plan(plan(small.model, config(poison), 3)), Catch::Contains("poison: guards return copies"));
    }
  }
}

}  // namespace zeroth::testing
