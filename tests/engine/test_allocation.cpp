// SPDX-License-Identifier: Apache-2.0
/// A steady-state step allocates nothing: on no thread, at no stage, neither in the library nor below it.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/activation_chain.hpp"
#include "engine/small_model.hpp"
#include "parity/tiers.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

#ifdef ZEROTH_SANITIZED
constexpr bool counts_malloc = false;  // sanitizers replace malloc
namespace {
std::int64_t malloc_count() noexcept { return 0; }
}  // namespace
#else
constexpr bool counts_malloc = true;
namespace {
std::atomic<std::int64_t> mallocs{0};
std::int64_t malloc_count() noexcept { return mallocs.load(std::memory_order_relaxed); }
}  // namespace
// The allocation functions of C code; glibc keeps its own under these names.
extern "C" {
void* __libc_malloc(std::size_t);               // NOLINT
void* __libc_calloc(std::size_t, std::size_t);  // NOLINT
void* __libc_realloc(void*, std::size_t);       // NOLINT
void* malloc(std::size_t bytes) {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
}
#endif

namespace zeroth::testing {
namespace {

std::int64_t count_now() noexcept { return test::allocation_count() + malloc_count(); }

struct Case {
  std::string name;
  Config config;
  bool evaluates = false;
};

/// Number of allocations of all threads in steps 4 to 8, and as a control the number if the loop itself allocates.
struct Counted {
  std::int64_t lean = -1, control = -1;
};

template <Element T, GradientOf<T> G>
void one_step(Engine<T, G>& engine, SmallModel const& small, bool evaluates) {
  for (auto micro : engine.micro_steps()) {
    micro_step(micro, small);
  }
  if (evaluates) {
    for (auto pass : engine.evaluation(1)) {
      forward(pass, small);
      pass.report_loss(1);
    }
  }
  static_cast<void>(engine.step());
}

/// `take` runs one step.
template <class F>
std::int64_t steps_4_to_8(std::barrier<>& together, bool allocates, F const& take) {
  for (int step = 1; step <= 3; ++step) {
    take();
  }
  // The gather and reduce threads may still be running; their work belongs to the steady state too.
  together.arrive_and_wait();
  auto const before = count_now();
  together.arrive_and_wait();
  for (int step = 4; step <= 8; ++step) {
    take();
    if (allocates) {
      std::vector<int> const some(3, step);
      together.arrive_and_wait();
    }
  }
  together.arrive_and_wait();
  auto const after = count_now();
  together.arrive_and_wait();
  return after - before;
}

/// Runs `steps(job, together, allocates)` on each rank. The last `servers` ranks do not meet the others.
template <class F>
Counted count_on(int world, F const& steps, int servers = 0) {
  Counted counted;
  for (bool const allocates : {false, true}) {
    std::barrier<> together{world - servers};
    std::atomic<std::int64_t> result{-1};
    auto const outcome = run_job(world, [&](Job& job) {
      auto const mine = steps(job, together, allocates);
      if (job.rank() == 0) {
        result = mine;
      }
    });
    REQUIRE(messages_of(outcome) == "");
    (allocates ? counted.control : counted.lean) = result;
  }
  return counted;
}

Counted count(int world, Case const& c) {
  return count_on(world, [&](Job& job, std::barrier<>& together, bool allocates) {
    std::int64_t counted = -1;
    with_precision(c.config, [&]<class T, class G>(Precision<T, G>) {
      SmallModel const small;
      Engine<T, G> engine{job, small.model, c.config};
      counted = steps_4_to_8(together, allocates, [&] { one_step(engine, small, c.evaluates); });
      engine.finish();
    });
    return counted;
  });
}

/// A chain of four units without math.
struct Row {
  static constexpr std::int64_t width = 300;
  Model model{1};
  std::vector<Param<1>> params;
  Row() {
    for (int i = 0; i < 4; ++i) {
      auto const name = "unit" + std::to_string(i);
      params.push_back(model.param(model.unit(name, {.input_per_sample = width}), name, {width}, Normal{0.1F}));
    }
  }
};

/// Uses every guard, gradient and message of a step, and of an evaluation.
void one_step(Engine<float>& engine, Row const& row) {
  auto const fill = [](auto const& memory, std::int64_t count) { std::fill_n(memory.data(), count, 0.5F); };
  for (auto work : engine.schedule()) {
    for (auto at = work.units().size(); at-- > 0;) {
      bool const forward = work.phase() == Phase::forward;
      auto const unit = work.units()[forward ? work.units().size() - 1 - at : at];
      auto const& param = row.params[unit.index()];
      switch (work.phase()) {
        case Phase::forward: static_cast<void>(work.forward(unit)); break;
        case Phase::backward_inputs: static_cast<void>(work.inputs(unit)); break;
        case Phase::backward: {
          auto const p = work.backward(unit);
          fill(p.grad(param), Row::width);
          break;
        }
        case Phase::backward_weights: {
          auto const p = work.weights(unit);
          fill(p.grad(param), Row::width);
          break;
        }
      }
    }
    if (work.phase() == Phase::forward) {
      work.last() ? static_cast<void>(work.report_loss(1)) : fill(work.output(), work.output().count());
    } else if (work.phase() != Phase::backward_weights && !work.first()) {
      fill(work.input_gradient(), work.input_gradient().count());
    }
  }
  for (auto pass : engine.evaluation(1)) {
    for (auto const unit : pass.units()) {
      auto const p = pass.forward(unit);
    }
    pass.last() ? pass.report_loss(1) : fill(pass.output(), pass.output().count());
  }
  static_cast<void>(engine.step());
}

}  // namespace

TEST_CASE("steps 4 to 8 allocate nothing, on any thread") {
  char const* const precisions[] = {"", R"(, "bf16": {"enabled": true})", R"(, "fp16": {"enabled": true})",
                                    R"(, "communication_data_type": "bf16")"};
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const precision : precisions) {
      for (bool const overlap : {false, true}) {
        for (bool const evaluates : {false, true}) {
          for (auto const* const reduce : {"every_micro_step", "last_micro_step"}) {
            auto const zero = fmt::format(R"(, "overlap_comm": {}, "stage3_prefetch_bucket_size": 1)", overlap);
            auto const zeroth = fmt::format(R"(, "reduce_gradients": "{}")", reduce);
            Case const c{"", small_config(stage, {.zero = zero, .zeroth = zeroth, .more = precision}), evaluates};
            INFO(fmt::format("stage {}, {}, overlap {}, {}, {}", stage, precision, overlap, reduce,
                             evaluates ? "with evaluation" : "training alone"));
            auto const counted = count(2, c);
            CHECK(counted.lean == 0);
            CHECK(counted.control >= 10);
          }
        }
      }
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing with delayed updates") {
  for (int stage = 0; stage <= 2; ++stage) {
    for (bool const overlap : {false, true}) {
      INFO(fmt::format("stage {}, overlap {}", stage, overlap));
      Case const c{"", small_config(stage, {.zero = fmt::format(R"(, "overlap_comm": {})", overlap),
                                            .zeroth = R"(, "delayed_update": true)",
                                            .more = R"(, "fp16": {"enabled": true})"})};
      auto const counted = count(2, c);
      CHECK(counted.lean == 0);
      CHECK(counted.control >= 10);
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing on workers and their parameter servers") {
  struct Setting {
    int servers, staleness;
    bool overlap;
    char const* reduce;
    char const* more;
  };
  for (auto const& [servers, staleness, overlap, reduce, more] :
       {Setting{1, 0, true, "every_micro_step", ""}, Setting{2, 0, false, "last_micro_step", ""},
        Setting{2, 0, true, "last_micro_step", R"(, "fp16": {"enabled": true})"},
        Setting{2, 0, true, "every_micro_step", R"(, "bf16": {"enabled": true}, "communication_data_type": "fp32")"},
        Setting{1, 2, true, "last_micro_step", ""},
        Setting{2, 1, true, "last_micro_step", R"(, "bf16": {"enabled": true})"},
        Setting{2, 3, false, "last_micro_step", ""}}) {
    INFO(fmt::format("{} servers, staleness {}, overlap {}, {}{}", servers, staleness, overlap, reduce, more));
    auto const config = small_config(
        0,
        {.zero = fmt::format(R"(, "overlap_comm": {})", overlap),
         .zeroth = fmt::format(R"(, "reduce_gradients": "{}", "parameter_server": {{"servers": {}, "staleness": {}}})",
                               reduce, servers, staleness),
         .more = std::string{more} + (staleness > 0 ? R"(, "gradient_clipping": 0)" : "")});
    auto const counted = count_on(
        2 + servers,
        [&](Job& job, std::barrier<>& together, bool allocates) {
          std::int64_t found = -1;
          with_precision(config, [&]<class T, class G>(Precision<T, G>) {
            SmallModel const small;
            Engine<T, G> engine{job, small.model, config};
            if (engine.serves()) {
              engine.serve();
              return;
            }
            found = steps_4_to_8(together, allocates, [&] { one_step(engine, small, false); });
            engine.finish();
          });
          return found;
        },
        servers);
    CHECK(counted.lean == 0);
    CHECK(counted.control >= 10);
  }
}

TEST_CASE("steps 4 to 8 allocate nothing with optimizers and codecs that exchange more than gradients") {
  struct Setting {
    int world, tensor;
    char const* keys;
  };
  for (auto const& [world, tensor, keys] :
       {Setting{2, 1, R"("optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2})"},
        Setting{4, 2, R"("optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2})"},
        Setting{2, 2, R"("optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 0})"},
        Setting{2, 1, R"("optimizer": {"type": "Lamb"}, "zero_optimization": {"stage": 2})"},
        Setting{2, 1, R"("optimizer": {"type": "OneBitAdam", "params": {"freeze_step": 1}},
                         "zero_optimization": {"stage": 0})"}}) {
    INFO(fmt::format("{} ranks, {} tensor ranks, {}", world, tensor, keys));
    auto const config = Config::from_json(fmt::format(
        R"({{"train_micro_batch_size_per_gpu": 2, {}, "zeroth": {{"mesh": {{"tensor": {}}}}}}})", keys, tensor));
    auto const counted = count_on(world, [&](Job& job, std::barrier<>& together, bool allocates) {
      Mesh mesh{job, config};
      Model model{1, mesh.tensor_part()};
      auto const unit = model.unit("unit");
      bool const cuts = config.tensor_ranks() > 1;
      auto const cut_along = [&](int dim) { return cuts ? std::optional{Cut{.dim = dim}} : std::nullopt; };
      auto const across = model.param(unit, "across", {12, 20}, Normal{0.1F}, {.cut = cut_along(1), .matrix = true});
      auto const along = model.param(unit, "along", {20, 12}, Normal{0.1F}, {.cut = cut_along(0), .matrix = true});
      Engine<float> engine{mesh, model, config};
      auto const found = steps_4_to_8(together, allocates, [&] {
        for (auto micro : engine.micro_steps()) {
          static_cast<void>(micro.forward(unit));
          static_cast<void>(micro.report_loss(1));
          auto const p = micro.backward(unit);
          for (auto const& param : {across, along}) {
            std::fill_n(p.grad(param).data(), 240 / config.tensor_ranks(), 0.5F);
          }
        }
        static_cast<void>(engine.step());
      });
      engine.finish();
      return found;
    });
    CHECK(counted.lean == 0);
    CHECK(counted.control >= 10);
  }
}

TEST_CASE("steps 4 to 8 of a pipeline allocate nothing with any schedule") {
  for (int const stage : {1, 3}) {
    for (auto const* const schedule : {"gpipe", "1f1b", "zb_h1", "interleaved_1f1b"}) {
      INFO(fmt::format("stage {}, {}", stage, schedule));
      auto const config = Config::from_json(fmt::format(
          R"({{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "optimizer": {{"type": "AdamW"}},
              "zero_optimization": {{"stage": {}}}, "zeroth": {{"mesh": {{"pipeline": 2}},
              "pipeline": {{"schedule": "{}", "chunks": {}}}}}}})",
          stage, schedule, std::string_view{schedule} == "interleaved_1f1b" ? 2 : 1));
      auto const counted = count_on(4, [&](Job& job, std::barrier<>& together, bool allocates) {
        Row const row;
        Mesh mesh{job, config};
        Engine<float> engine{mesh, row.model, config};
        auto const found = steps_4_to_8(together, allocates, [&] { one_step(engine, row); });
        engine.finish();
        return found;
      });
      CHECK(counted.lean == 0);
      CHECK(counted.control >= 10);
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing with states on a disk, in any mode of transfer") {
  Folder const folder;
  char const* const precisions[] = {"", R"(, "bf16": {"enabled": true})"};
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const precision : precisions) {
      for (auto const& disk : on_disks) {
        Case const c{"", on_disk(small_config(stage, {.more = precision}), disk, folder.path())};
        INFO(fmt::format("stage {}, {}, {}", stage, precision, disk.name()));
        auto const counted = count(2, c);
        CHECK(counted.lean == 0);
        CHECK(counted.control >= 10);
      }
    }
  }
}

TEST_CASE("steps 4 to 8 allocate nothing with parameters on a disk, also in groups") {
  Folder const folder;
  for (auto const* const group : {"", R"(, "zero_hpz_partition_size": 2)", R"(, "mics_shard_size": 2)"}) {
    for (auto const* const precision : {"", R"(, "bf16": {"enabled": true})"}) {
      for (auto const& disk : parameters_on_disks) {
        Case const c{"", parameters_on_disk(small_config(3, {.zero = group, .more = precision}), disk, folder.path())};
        INFO(fmt::format("{}, {}, {}", group, precision, disk.name()));
        auto const counted = count(4, c);
        CHECK(counted.lean == 0);
        CHECK(counted.control >= 10);
      }
    }
  }
}

TEST_CASE("an engine that only evaluates does not grow, whether its evaluations are finished or abandoned") {
  for (bool const leaves : {false, true}) {
    std::int64_t grown = -1;
    auto const outcome = run_job(1, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(0)};
      auto const evaluate = [&](int times) {
        for (int i = 0; i < times; ++i) {
          for (auto pass : engine.evaluation(2)) {
            forward(pass, small);
            pass.report_loss(1);
            if (leaves) {
              break;
            }
          }
        }
      };
      evaluate(leaves ? 5000 : 500);
      auto const before = count_now();
      evaluate(leaves ? 15000 : 1500);
      grown = count_now() - before;
    });
    CHECK(messages_of(outcome) == "");
    INFO((leaves ? "left" : "finished"));
    CHECK(grown == 0);
  }
}

TEST_CASE("the counter detects malloc") {
  auto const before = count_now();
  void* volatile memory = std::malloc(100);
  std::free(memory);
  CHECK((count_now() > before || !counts_malloc));
}

TEST_CASE("steps 4 to 8 allocate nothing while inputs wait in a store") {
  Folder const folder;
  for (int const stage : {0, 3}) {
    auto const config = chain_config(stage, folder.path());
    auto const [lean, control] = count_on(2, [&](Job& job, std::barrier<>& together, bool allocates) {
      Chain const chain;
      Engine<float> engine{job, chain.model, config};
      ActivationPolicy const policy{config, chain.model};
      ActivationStore store{engine, {.bytes = Chain::length * Chain::input_bytes}};
      ChainTape tape;
      auto const counted = steps_4_to_8(together, allocates, [&] {
        for (auto micro : engine.micro_steps()) {
          chain_micro_step(micro, chain, policy, &store, tape);
        }
        static_cast<void>(engine.step());
      });
      engine.finish();
      return counted;
    });
    INFO(stage);
    CHECK(lean == 0);
    CHECK(control > 0);
  }
}

}  // namespace zeroth::testing
