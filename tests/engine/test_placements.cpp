// SPDX-License-Identifier: Apache-2.0
/// Calls of an engine behave the same wherever states and parameters are: sharded within groups, on a disk, or both.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/small_model.hpp"
#include "parity/groups.hpp"
#include "parity/tiers.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

constexpr int world = 4;

/// A stage file, and the traffic that its placements cause.
struct Case {
  std::string name;
  Config config;
  int stage;
  int published;  ///< Publications to replicas per step, needed if parameters are sharded over fewer ranks than their
                  ///< updates.
  int read;       ///< Reads of a rank's disks per step: tiles of states, and pieces of parameters to gather.
  int written;    ///< Writes of a rank's disks per step.
};

Config config_of(int stage) {
  return small_config(
      stage, {.zeroth = R"(, "reduce_gradients": "every_micro_step")", .more = R"(, "bf16": {"enabled": true})"});
}

/// All states whole and in memory: the base of comparisons.
Config whole() { return config_of(0); }

std::vector<Case> cases(std::filesystem::path const& folder) {
  std::vector<Case> all;
  for (auto const& grouping : groupings) {
    auto const config = in_groups(config_of(grouping.stage), grouping, 2);
    int const published = grouping.cut == Cut::parameters ? 1 : 0;
    all.push_back({grouping.name(2), config, grouping.stage, published, 0, 0});
    all.push_back(
        {grouping.name(2) + ", half on a disk", on_disk(config, on_disks[2], folder), grouping.stage, published, 2, 2});
  }
  for (int stage = 0; stage <= 3; ++stage) {
    all.push_back(
        {fmt::format("stage {}, on a disk", stage), on_disk(config_of(stage), on_disks[1], folder), stage, 0, 3, 3});
  }
  for (auto const& grouping : {Grouping{3, Cut::nothing}, Grouping{3, Cut::parameters}, Grouping{3, Cut::states}}) {
    auto const config = parameters_on_disk(in_groups(config_of(3), grouping, 2), parameters_on_disks[0], folder);
    bool const hpz = grouping.cut == Cut::parameters;  // published by tiles; each tile has two slices
    int const read = (hpz ? 2 : 1) * 3 + 1;
    auto const name = grouping.name(2) + ", parameters on a disk";
    all.push_back({name, config, 3, hpz ? 3 : 0, read, 3});
    all.push_back({name + ", and states", on_disk(config, on_disks[1], folder), 3, hpz ? 3 : 0, read + 3, 3 + 3});
  }
  return all;
}

/// Runs `rank_main` on each rank of a job.
template <class F>
void on_ranks(Config const& config, F const& rank_main) {
  auto const outcome = run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<bf16> engine{job, small.model, config};
    rank_main(job, engine, small);
  });
  REQUIRE(messages_of(outcome) == "");
}

std::string text_of(std::filesystem::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// The weights that an engine saves after two steps, and those after it has loaded a file and trained on.
std::pair<std::string, std::string> saved(Config const& config, std::filesystem::path const& from,
                                          Folder const& folder) {
  on_ranks(config, [&](Job&, auto& engine, auto& small) {
    train(engine, small, 2);
    engine.save_weights(folder / "trained");
    engine.load_weights(from);
    train(engine, small, 2);
    engine.save_weights(folder / "loaded");
  });
  return {text_of(folder / "trained"), text_of(folder / "loaded")};
}

/// All masters and the frozen parameter as read by the ranks: before, and after one of each was written and the engine
/// trained on.
std::vector<float> read_and_written(Config const& config) {
  std::vector<std::vector<float>> by_rank(world);
  on_ranks(config, [&](Job& job, auto& engine, auto& small) {
    auto& all = by_rank[static_cast<std::size_t>(job.rank())];
    auto const read = [&](AnyParam const& param, std::size_t count) {
      std::vector<float> values(count);
      engine.read(param, values);
      all.insert(all.end(), values.begin(), values.end());
    };
    auto const read_all = [&] {
      for (auto const& weight : small.weights) {
        read(weight, 300);
      }
      read(small.frozen, 50);
    };
    train(engine, small, 2);
    read_all();
    std::vector<float> values(300);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i) / 300;
    }
    engine.write(small.weights[1], values);
    engine.write(small.frozen, std::vector<float>(50, 1.5F));
    read_all();
    train(engine, small, 2);
    read_all();
    auto const seen = read_weights(engine, small);  // read through guards
    all.insert(all.end(), seen.begin(), seen.end());
  });
  for (auto const& values : by_rank) {
    REQUIRE(values == by_rank.front());
  }
  return by_rank.front();
}

/// Number of spans of each kind in a stream, in one step of a rank.
using SpanCounts = std::map<std::string, int>;

/// The span counts of rank 1, and the weights that it reads at the end.
std::pair<SpanCounts, std::vector<float>> traced(Config const& config, bool traces) {
  std::pair<SpanCounts, std::vector<float>> result;
  on_ranks(config, [&](Job& job, auto& engine, auto& small) {
    train(engine, small, 2);
    Timeline timeline;
    engine.trace(traces ? &timeline : nullptr);
    train(engine, small, 1);
    engine.trace(nullptr);
    train(engine, small, 1);
    auto const weights = read_weights(engine, small);
    if (job.rank() == 1) {
      std::map<std::string, double> ends;
      for (auto const& span : timeline.spans()) {
        ++result.first[span.stream + ": " + span.what];
        expect(span.what == "wait" || span.stream == "compute" || span.begin_us >= ends[span.stream],
               "spans of one stream overlap");
        ends[span.stream] = std::max(ends[span.stream], span.end_us);
      }
      result.second = weights;
    }
  });
  return result;
}

}  // namespace

TEST_CASE("weight files are those of stage 0, byte for byte, wherever states are") {
  Folder const folder;
  on_ranks(whole(), [&](Job&, auto& engine, auto& small) {
    train(engine, small, 3);
    engine.save_weights(folder / "others");
  });
  auto const expected = saved(whole(), folder / "others", folder);
  REQUIRE(expected.first != expected.second);
  Folder const disk;
  for (auto const& each : cases(disk.path())) {
    INFO(each.name);
    auto const got = saved(each.config, folder / "others", folder);
    CHECK((got.first == expected.first));
    CHECK((got.second == expected.second));
    CHECK(disk.contents().empty());
  }
}

TEST_CASE("read() and write() work like at stage 0, wherever states are") {
  auto const expected = read_and_written(whole());
  Folder const disk;
  for (auto const& each : cases(disk.path())) {
    INFO(each.name);
    CHECK((read_and_written(each.config) == expected));
  }
}

TEST_CASE("a trace shows the work of groups and disks in a step, and changes nothing") {
  Folder const disk;
  for (auto const& each : cases(disk.path())) {
    INFO(each.name);
    auto [spans, weights] = traced(each.config, true);
    CHECK((weights == traced(each.config, false).second));
    CHECK(spans["compute: forward"] == 2 * 3);
    CHECK(spans["compute: backward"] == 2 * 3);
    CHECK(spans["compute: update"] == 3);
    CHECK(spans["reduce: decide"] == 1);
    CHECK(spans["reduce: reduce"] > 0);
    CHECK(spans["gather: gather"] == (each.stage == 3 ? 3 : 0));
    CHECK(spans["gather: publish"] == (each.stage == 1 || each.stage == 2 ? 3 : 0));
    CHECK(spans["reduce: publish"] == each.published);
    CHECK(spans["read: read"] + spans["read shards: read"] == each.read);
    CHECK(spans["write: write"] + spans["write shards: write"] == each.written);
  }
}

}  // namespace zeroth::testing
