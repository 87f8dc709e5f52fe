// SPDX-License-Identifier: Apache-2.0
/// Compares a step's reports of communication and slots with what was submitted and planned.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/reports.hpp"
#include "shard/layout.hpp"
#include "stage/schedule.hpp"
#include "support/hooked.hpp"
#include "zeroth/comm/flight_recorder.hpp"

namespace zeroth::testing {
namespace {

/// The small model's flat units on two ranks: trainable elements of each, and all elements.
constexpr std::int64_t trainable_count = 512;
constexpr std::int64_t frozen_count = 256;  // in the second unit
constexpr std::int64_t all_trainable = 3 * trainable_count;

}  // namespace

TEST_CASE("reduced bytes are those of every trainable unit, padded, at every reduction") {
  struct Case {
    char const* reduce;
    int reductions;
  };
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const& [reduce, reductions] : {Case{"every_micro_step", 3}, Case{"last_micro_step", 1}}) {
      auto const keys = fmt::format(R"(, "reduce_gradients": "{}")", reduce);
      // At stage 0 each rank accumulates micro-steps for its slice; at the end all get the fp32 sums of all slices.
      int const shared = stage == 0 && reductions > 1 ? 1 : 0;
      INFO(fmt::format("stage {}, {}", stage, reduce));
      for (auto const& report : train_reports(2, small_config(stage, {.accumulation = 3, .zeroth = keys}), 3)) {
        CHECK(report.reduced_bytes == (reductions + shared) * all_trainable * 4);
      }
      auto const narrow =
          small_config(stage, {.accumulation = 3, .zeroth = keys, .more = R"(, "communication_data_type": "bf16")"});
      for (auto const& report : train_reports(2, narrow, 3)) {
        CHECK(report.reduced_bytes == reductions * all_trainable * 2 + shared * all_trainable * 4);
      }
    }
  }
}

TEST_CASE("gathered bytes are none, those of published parameters, or those of stage 3's gathers") {
  constexpr std::int64_t whole = (all_trainable + frozen_count) * 4;
  for (auto const& report : train_reports(2, small_config(0), 3)) {
    CHECK(report.gathered_bytes == 0);
  }
  for (int const stage : {1, 2}) {
    for (auto const& report : train_reports(2, small_config(stage), 3)) {
      CHECK(report.gathered_bytes == all_trainable * 4);
    }
  }
  // Stage 3 with one slot: forward gathers all three units, and backward all but the last, which stayed gathered.
  auto const reports =
      train_reports(2, small_config(3, {.accumulation = 1, .zero = R"(, "stage3_prefetch_bucket_size": 0)"}), 3);
  CHECK(reports[0].parameter_slots_used == 1);
  for (auto const& report : reports) {
    CHECK(report.gathered_bytes == whole + (frozen_count + 2 * trainable_count) * 4);
  }
}

TEST_CASE("units that are not resharded after forward are gathered once in a step, in slots of their own") {
  auto const config = small_config(3, {.accumulation = 2, .zero = R"(, "stage3_prefetch_bucket_size": 0)"});
  auto const with_kept = [&](int kept) {
    std::vector<StepReport> reports;
    std::vector<float> weights;
    MemoryBytes planned;
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small{300, 3, kept};
      Engine<float> engine{job, small.model, config};
      auto const of_rank = train(engine, small, 3);
      auto const values = read_weights(engine, small);
      expect(engine.peak() == engine.planned(), "the plan is what was allocated");
      if (job.rank() == 0) {
        reports = of_rank;
        weights = values;
        planned = engine.planned();
      }
    });
    REQUIRE(messages_of(outcome) == "");
    return std::tuple{reports, weights, planned};
  };
  auto const [plain, weights, planned] = with_kept(0);
  constexpr std::int64_t whole = (all_trainable + frozen_count) * 4;
  // In each micro-step forward gathers all three units, and backward gathers two of them again. The next forward finds
  // the first one still gathered.
  CHECK(plain.back().gathered_bytes == 2 * (2 * whole - trainable_count * 4) - trainable_count * 4);
  CHECK(plain.back().parameter_slots_used == 1);
  auto const [kept, same_weights, more] = with_kept(3);
  CHECK(same_weights == weights);
  for (auto const& report : kept) {
    CHECK(report.gathered_bytes == whole);
    CHECK(report.parameter_slots_used == 3);
  }
  CHECK(more.slots - planned.slots == 2 * (trainable_count + frozen_count) * 4);
  auto const [one, also_same, one_more] = with_kept(1);
  CHECK(also_same == weights);
  CHECK(one.back().gathered_bytes < plain.back().gathered_bytes);
  CHECK(one.back().gathered_bytes > whole);
  CHECK(one_more.slots - planned.slots == (trainable_count + frozen_count) * 4);
}

TEST_CASE("bytes in reports are those of the collectives that were submitted") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (auto const* const prefetch : {"0", "1", "1000000"}) {
      auto const zero = fmt::format(R"(, "stage3_prefetch_bucket_size": {})", prefetch);
      auto const config = small_config(stage, {.zero = zero});
      std::vector<std::string> problems(2);
      run(2, config, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
        auto& recorder = job.communicator().recorder();
        std::size_t before = recorder.snapshot().size();
        std::vector<std::pair<std::int64_t, std::int64_t>> counted;
        std::vector<StepReport> reports;
        for (int step = 0; step < 4; ++step) {
          all_micro_steps(engine, small);
          if (auto const report = engine.step()) {
            reports.push_back(*report);
          }
          auto const records = recorder.snapshot();
          std::int64_t gathered = 0;
          std::int64_t reduced = 0;
          for (auto record = before; record < records.size(); ++record) {
            std::string_view const what{records[record].what};
            std::string_view const purpose{records[record].purpose};
            auto const bytes = records[record].count * bytes_of(records[record].dtype);
            gathered += what == "all_gather" ? 2 * bytes : 0;
            reduced += what == "reduce_scatter" ? 2 * bytes : 0;
            reduced += what == "all_reduce" && purpose == "backward" ? bytes : 0;
          }
          before = records.size();
          counted.emplace_back(gathered, reduced);
        }
        reports.push_back(engine.finish().value());
        for (std::size_t step = 0; step < 4; ++step) {
          if (reports[step].gathered_bytes != counted[step].first ||
              reports[step].reduced_bytes != counted[step].second) {
            problems[static_cast<std::size_t>(job.rank())] +=
                fmt::format("step {}: reported {} and {}, counted {} and {}; ", step + 1, reports[step].gathered_bytes,
                            reports[step].reduced_bytes, counted[step].first, counted[step].second);
          }
        }
        return Seen{};
      });
      INFO(fmt::format("stage {}, prefetch {}", stage, prefetch));
      CHECK(problems[0] == "");
      CHECK(problems[1] == "");
    }
  }
}

TEST_CASE("in groups, bytes within and across them match the formulas and the submitted collectives") {
  // Six ranks in groups of three. With slices of 128 each unit has 768 trainable elements; the second also has 768
  // frozen ones.
  constexpr std::int64_t w = 3 * 768 * 4;
  constexpr std::int64_t f = 768 * 4;
  // Two sizes of slots, one slot each: backward finds the second and the last unit still gathered from forward.
  constexpr std::int64_t by_units = w + f + 768 * 4;
  struct Case {
    int stage;
    char const* zero;
    char const* zeroth;
    std::int64_t gathered, gathered_across, reduced, reduced_across;
  };
  auto const* const hpz = R"(, "stage3_prefetch_bucket_size": 0, "zero_hpz_partition_size": 3)";
  auto const hpz_on_disk = hpz + fmt::format(R"(, "offload_param": {{"device": "nvme", "nvme_path": "{}",
      "max_in_cpu": 0}})",
                                             std::filesystem::temp_directory_path().string());
  constexpr std::int64_t published_by_blocks = 3 * 2 * 4096;  // three units, each updated by two replicas
  auto const* const mics = R"(, "stage3_prefetch_bucket_size": 0, "mics_shard_size": 3)";
  auto const* const two_levels = R"(, "two_level_sums": true)";
  for (auto const& each : {
           // Parameters are gathered within groups, and updates are published across them: a rank holds a third of
           // each.
           Case{3, hpz, "", by_units + w / 3, w / 3, w, w},
           Case{3, hpz, two_levels, by_units + w / 3, w / 3, w + w / 3, w / 3},
           Case{3, hpz_on_disk.c_str(), "", by_units + published_by_blocks, published_by_blocks, w, w},
           // Sums go across groups, and their slices once more to replicas; all gathers stay within groups.
           Case{3, mics, "", by_units, 0, w + w / 3, w + w / 3},
           Case{3, mics, two_levels, by_units, 0, w + 2 * (w / 3), 2 * (w / 3)},
           Case{1, R"(, "mics_shard_size": 3)", "", w, 0, w + w / 3, w + w / 3},
           // Stage 0 with sums by groups: two scatters, two gathers.
           Case{0, "", R"(, "two_level_sums": true, "group_size": 3)", 0, 0, 2 * w + 2 * (w / 3), 2 * (w / 3)},
       }) {
    INFO(fmt::format("stage {}{}{}", each.stage, each.zero, each.zeroth));
    auto const config = small_config(each.stage, {.accumulation = 1, .zero = each.zero, .zeroth = each.zeroth});
    std::vector<std::string> problems(6);
    auto const seen = run(6, config, [&](Job& job, Engine<float>& engine, SmallModel const& small) {
      auto& recorder = job.communicator().recorder();
      auto const before = recorder.snapshot().size();
      Seen mine;
      for (int step = 0; step < 2; ++step) {
        all_micro_steps(engine, small);
        if (auto const report = engine.step()) {
          mine.reports.push_back(*report);
        }
      }
      mine.reports.push_back(engine.finish().value());
      std::int64_t gathered = 0, reduced = 0;
      auto const records = recorder.snapshot();
      for (auto record = before; record < records.size(); ++record) {
        std::string_view const what{records[record].what};
        std::string_view const purpose{records[record].purpose};
        std::string_view const communicator{records[record].communicator};
        auto const ranks = communicator.ends_with("-group") ? 3 : communicator.ends_with("-replicas") ? 2 : 6;
        auto const bytes = ranks * records[record].count * bytes_of(records[record].dtype);
        (purpose == "share" || what == "reduce_scatter" ? reduced : gathered) +=
            what == "all_gather" || what == "reduce_scatter" ? bytes : 0;
      }
      if (gathered != 2 * each.gathered || reduced != 2 * each.reduced) {
        problems[static_cast<std::size_t>(job.rank())] = fmt::format("counted {} and {}, expected {} and {}", gathered,
                                                                     reduced, 2 * each.gathered, 2 * each.reduced);
      }
      return mine;
    });
    CHECK(problems == std::vector<std::string>(6));
    for (auto const& of_rank : seen) {
      for (auto const& report : of_rank.reports) {
        CHECK(report.gathered_bytes == each.gathered);
        CHECK(report.gathered_across_groups_bytes == each.gathered_across);
        CHECK(report.reduced_bytes == each.reduced);
        CHECK(report.reduced_across_groups_bytes == each.reduced_across);
      }
    }
  }
}

TEST_CASE(
    "in declared order prefetch misses nothing after the first unit, and without prefetch every gather is a miss") {
  for (bool const overlap : {false, true}) {
    for (int const accumulation : {1, 3}) {
      auto const misses = [&](int stage, std::string const& prefetch) {
        auto const zero = fmt::format(R"(, "overlap_comm": {}, "stage3_prefetch_bucket_size": {})", overlap, prefetch);
        std::vector<std::int64_t> counts;
        for (auto const& report :
             train_reports(2, small_config(stage, {.accumulation = accumulation, .zero = zero}), 4)) {
          counts.push_back(report.prefetch_misses);
        }
        return counts;
      };
      INFO(fmt::format("overlap {}, {} micro-steps", overlap, accumulation));
      for (int stage = 0; stage <= 2; ++stage) {
        CHECK(misses(stage, "1") == std::vector<std::int64_t>{0, 0, 0, 0});
      }
      CHECK(misses(3, "1") == std::vector<std::int64_t>{1, 0, 0, 0});
      CHECK(misses(3, "1000000") == std::vector<std::int64_t>{1, 0, 0, 0});
      for (auto const count : misses(3, "0")) {
        CHECK(count >= 3);
      }
    }
  }
}

TEST_CASE("an order other than the declared one causes misses") {
  auto const zero = std::string{R"(, "stage3_prefetch_bucket_size": 1)"};
  auto const reports = run(2, small_config(3, {.accumulation = 1, .zero = zero}),
                           [&](Job&, Engine<float>& engine, SmallModel const& small) {
                             Seen seen;
                             for (int step = 0; step < 3; ++step) {
                               for (auto micro : engine.micro_steps()) {
                                 for (std::size_t const u : {2U, 0U, 1U}) {
                                   auto const p = micro.forward(small.units[u]);
                                 }
                                 backward(micro, small, micro.report_loss(1));
                               }
                               if (auto const report = engine.step()) {
                                 seen.reports.push_back(*report);
                               }
                             }
                             seen.reports.push_back(engine.finish().value());
                             return seen;
                           })
                           .front()
                           .reports;
  for (auto const& report : reports) {
    CHECK(report.prefetch_misses > 0);
  }
}

TEST_CASE("the slots in use never exceed the plan, and in declared order all are used") {
  SyntheticModel const synthetic;
  for (int const slots : {1, 2, 4}) {
    for (auto const* const prefetch : {"0", "1", "1500", "1000000"}) {
      for (int const stage : {2, 3}) {
        auto const config =
            small_config(stage, {.zero = fmt::format(R"(, "stage3_prefetch_bucket_size": {})", prefetch),
                                 .zeroth = fmt::format(R"(, "gradient_slots": {})", slots)});
        std::vector<StepReport> reports;
        MemoryBytes planned;
        auto const outcome = run_job(2, [&](Job& job) {
          Trainer<float, float> trainer{job, synthetic, config, {}};
          auto trained = trainer.run();
          if (job.rank() == 0) {
            reports = trained.reports;
            planned = trained.planned;
          }
        });
        REQUIRE(messages_of(outcome) == "");
        shard::Layout const layout{synthetic.model.description(), 2};
        std::int64_t largest = 0;
        for (auto const& flat : layout.flats()) {
          largest = std::max(largest, flat.padded_count());
        }
        auto const limits = stage::limits_of(layout, config.settings(2, largest));
        INFO(fmt::format("stage {}, {} gradient slots, prefetch {}", stage, slots, prefetch));
        CHECK(reports.back().parameter_slots_used <= limits.parameter_slots.total_slots());
        CHECK(reports.back().gradient_slots_used <= limits.gradient_slots.total_slots());
        CHECK(reports.back().gradient_slots_used >= 2);  // the tied embedding's slot stays in use
        CHECK((reports.back().parameter_slots_used > 0) == (stage == 3));
        CHECK(planned.slots == 4 * (limits.parameter_slots.total_count() + limits.gradient_slots.total_count()));
      }
    }
  }
}

TEST_CASE("collectives are compared among ranks in the first two steps, then only if the file says so") {
  using Given = std::vector<std::pair<bool, std::int64_t>>;  // check and timeout in ms, in order
  for (bool const asked : {false, true}) {
    std::vector<Given> given(5);  // before the first step, and in each step
    std::size_t now = 0;
    auto const wrap = [&](auto inner) {
      return std::make_unique<HookedCommunicator>(
          std::move(inner), [](auto const&, auto) {},
          [&](comm::CommOptions const& options) { given[now].emplace_back(options.check, options.timeout.count()); });
    };
    auto const outcome = run_job(
        1,
        [&](Job& job) {
          SmallModel const small;
          Engine<float> engine{job, small.model, small_config(3, {.zeroth = asked ? R"(, "check": true)" : ""})};
          for (now = 1; now < given.size(); ++now) {
            all_micro_steps(engine, small);
            engine.step();
          }
          now = 0;
        },
        wrap);
    REQUIRE(messages_of(outcome) == "");
    INFO("asked " << asked);
    auto const two = [](bool check) { return Given(2, {check, 120000}); };  // one for gathers and one for reductions
    REQUIRE(given[0].size() >= 2);
    CHECK(Given(given[0].end() - 2, given[0].end()) == two(true));
    CHECK(given[1].empty());
    CHECK(given[2] == (asked ? Given{} : two(false)));
    CHECK(given[3].empty());
    CHECK(given[4].empty());
  }
}

}  // namespace zeroth::testing
