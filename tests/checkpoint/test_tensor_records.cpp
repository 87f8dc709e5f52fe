// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of tensor ranks that are damaged, incomplete or forged, and the parts of them that a restore reads.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/hashes.hpp"
#include "checkpoint/record_format.hpp"
#include "engine/safetensors_file.hpp"
#include "small_run.hpp"
#include "support/folder.hpp"
#include "support/sanitized.hpp"
#include "tensor_runs.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr Grid saved_by{.pipeline = 2, .data = 1, .tensor = 2, .zero = 2};

/// Saves after each of two steps.
struct SavedGrid {
  Folder folder;
  fs::path first = folder / "step_00000001", second = folder / "step_00000002";
  explicit SavedGrid(Grid const& grid = saved_by) {
    DividedOptions options;
    options.sequence = true;
    options.steps = 2;
    options.after_step = [&](AnyEngine& engine, int) { engine.save(folder.path()).wait(); };
    train_grid(config_of(fp32_types, grid), grid, options);
  }
};

/// Forges a record with a matching hash.
void forge_grid(fs::path const& checkpoint, std::string const& text) {
  auto const body = text.substr(0, text.rfind(",\n \"xxh3\""));
  write_file(checkpoint / "checkpoint.json", body + checkpoint::hash_line(body));
}

/// The error of `call(engine)` on the ranks of `grid`, the same on all; afterwards they train a step if they may.
std::string said_by_grid(Grid const& grid, std::function<void(AnyEngine&)> const& call, bool trains = true) {
  std::vector<std::string> said(static_cast<std::size_t>(grid.world()));
  DividedOptions options;
  options.sequence = true;
  options.steps = trains ? 1 : 0;
  auto const outcome = run_job(grid.world(), [&](Job& job) {
    auto of_rank = options;
    of_rank.begin = [&](AnyEngine& engine) {
      said[static_cast<std::size_t>(job.rank())] = error_of([&] { call(engine); });
      return 0;
    };
    if (trains) {
      train_divided(job, config_of(fp32_types, grid), of_rank);
      return;
    }
    auto const config = config_of(fp32_types, grid);
    Mesh mesh{job, config};
    Divided const divided{mesh.tensor_part(), true};
    Engine<float> engine{mesh, divided.model, config};
    static_cast<void>(of_rank.begin(engine));
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : said) {
    CHECK(each == said.front());
  }
  return said.front();
}

}  // namespace

TEST_CASE("forged records of tensor ranks are refused") {
  SavedGrid const saves;
  auto const good = read_file(saves.second / "checkpoint.json");
  auto const forge = [&](std::string const& part, std::string const& by) {
    auto text = good;
    auto const at = text.find(part);
    REQUIRE(at != std::string::npos);
    forge_grid(saves.second, text.replace(at, part.size(), by));
    return thrown<DamagedError>([&] { return checkpoint::read_record(saves.second); });
  };
  std::string const of_first = R"("cut":{"dim":1,"sections":[12,12],"multiple":0,"index":0,"of":2})";
  auto const cut = [&](std::string const& by) { return forge(of_first, "\"cut\":{" + by + "}"); };
  CHECK(cut(R"("dim":1,"sections":[12,12],"multiple":0,"index":0,"of":2)").empty());
  CHECK_THAT(cut(R"("dim":2,"sections":[12,12],"multiple":0,"index":0,"of":2)"),
             Contains("cut.dim is 2; allowed: a whole number from 0 to 1"));
  CHECK_THAT(cut(R"("dim":-1,"sections":[12,12],"multiple":0,"index":0,"of":2)"), Contains("cut.dim is -1"));
  CHECK_THAT(cut(R"("dim":0,"sections":[12,12],"multiple":0,"index":0,"of":2)"),
             Contains("sections[0] is 12; allowed: a whole number from 1 to 8, what is left of dimension 0"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,6],"multiple":0,"index":0,"of":2)"),
             Contains("or these are not dimension 1 of 24 elements"));
  CHECK_THAT(cut(R"("dim":1,"sections":[9,15],"multiple":0,"index":0,"of":2)"),
             Contains("2 parts do not divide its sections"));
  CHECK_THAT(cut(R"("dim":1,"sections":[-12,36],"multiple":0,"index":0,"of":2)"), Contains("sections[0] is -12"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,"a"],"multiple":0,"index":0,"of":2)"), Contains("sections[1] is \"a\""));
  CHECK_THAT(cut(R"("dim":1,"multiple":0,"index":0,"of":2)"), Contains("cut.sections is missing"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":9007199254740993,"index":0,"of":2)"),
             Contains("cut.multiple is 9007199254740993; allowed: a whole number from 0 to 1048576"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":0,"index":2,"of":2)"),
             Contains("cut.index is 2; allowed: a whole number from 0 to 1"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":0,"index":0,"of":1)"), Contains("cut.of is 1"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":0,"index":0,"of":4)"),
             Contains("is divided into 4 parts, but there were 2 tensor ranks"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":0,"index":1,"of":2)"), Contains("has no part 0"));
  CHECK_THAT(cut(R"("dim":1,"sections":[],"multiple":0,"index":0,"of":2)"),
             Contains("has parts 0 and 1 of different shapes, cuts or states"));
  CHECK_THAT(cut(R"("dim":1,"sections":[12,12],"multiple":1048576,"index":0,"of":2)"),
             Contains("are beyond the unit's"));
  CHECK_THAT(forge("," + of_first, ""), Contains("are beyond the unit's") || Contains("of different shapes"));
  CHECK_THAT(forge(R"("index":1,"of":2)", R"("index":0,"of":2)"), Contains("occurs twice"));
  CHECK_THAT(forge("\"block0.first\"", "\"another\""), Contains("has no part"));
  CHECK_THAT(forge("\"tensor_ranks\":2", "\"tensor_ranks\":4"),
             Contains("is divided into 2 parts, but there were 4 tensor ranks"));
  CHECK_THAT(forge("\"tensor_ranks\":2", "\"tensor_ranks\":5"), Contains("tensor_ranks is 5"));
  CHECK_THAT(forge("\"tensor_ranks\":2,", ""), Contains("tensor_ranks is missing"));
  CHECK_THAT(forge("\"format\":3", "\"format\":2"), Contains("but there were 1 tensor ranks"));
  forge_grid(saves.second, std::regex_replace(good, std::regex{R"("format":3)"}, R"("format":6)"));
  CHECK_THAT(thrown<ContractError>([&] { return checkpoint::read_record(saves.second); }),
             Contains("its format is 6, but this version of Zeroth reads formats 1 to 5"));
}

TEST_CASE("a checkpoint without divided parameters has format 2, which earlier versions can read") {
  SavedGrid const one{{.pipeline = 2, .data = 1, .tensor = 1, .zero = 1}};
  CHECK_THAT(read_file(one.first / "checkpoint.json"), Contains("\"format\":2") && !Contains("tensor_ranks"));
  SavedGrid const two;
  CHECK_THAT(read_file(two.first / "checkpoint.json"), Contains("\"format\":3") && Contains("\"tensor_ranks\":2"));
  auto const contents = checkpoint::read_record(two.first).contents;
  CHECK(contents.stages() == 2);
  CHECK(contents.tensor_ranks == 2);
  CHECK(contents.places == 4);
  std::int64_t bytes = 0;
  for (int place = 0; place < 4; ++place) {
    bytes += contents.state_bytes(place);
  }
  Divided const divided{{0, 2}, true};
  CHECK(bytes == plan(divided.model, config_of(fp32_types, saved_by), 4).checkpoint_bytes);
}

TEST_CASE("tensor ranks that divide nothing save whole parameters, from the first of them") {
  Folder const folder;
  std::vector<std::vector<float>> seen(4);
  auto const on = [&](Grid const& grid, auto const& work) {
    auto const config = config_of(fp32_types, grid);
    REQUIRE(messages_of(run_job(grid.world(), [&](Job& job) {
              Mesh mesh{job, config};
              Model model{1, mesh.tensor_part()};
              auto const param = model.param(model.unit("u"), "w", {300}, Normal{1});
              Engine<float> engine{mesh, model, config};
              work(engine);
              auto& values = seen[static_cast<std::size_t>(job.rank())];
              values.resize(300);
              engine.read(param, values);
            })) == "");
  };
  on({.data = 2, .tensor = 2, .zero = 2}, [&](auto& engine) { engine.save(folder.path()).wait(); });
  auto const contents = checkpoint::read_record(folder / "step_00000000").contents;
  CHECK(contents.stages() == 1);
  CHECK(contents.tensor_ranks == 2);
  CHECK(contents.places == 4);
  CHECK(contents.state_bytes(1) > 0);
  CHECK(contents.state_bytes(2) == 0);
  auto const expected = seen;
  for (auto const& grid : {Grid{1, 1, 1, 0}, Grid{1, 1, 3, 1}, Grid{1, 2, 2, 3}}) {
    on(grid, [&](auto& engine) { engine.restore(folder.path()); });
    CHECK(seen == expected);
  }
}

TEST_CASE("padding is not restored, whatever a file contains there") {
  SavedGrid const saves{{.data = 1, .tensor = 2, .zero = 1}};
  auto const states = states_in(saves.second);
  auto const contents = checkpoint::read_record(saves.second).contents;
  each_padding(contents, [&](auto const& space, auto const& state, std::int64_t first, std::int64_t count) {
    for (auto const& piece : checkpoint::pieces_of(space, state, first, count)) {
      auto const file = saves.second / checkpoint::file_name(piece.place);
      auto bytes = read_file(file);
      auto const data = bytes.size() - 8 - static_cast<std::size_t>(contents.state_bytes(piece.place));
      bytes.replace(data + static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.bytes),
                    std::string(static_cast<std::size_t>(piece.bytes), '?'));
      auto const hash = checkpoint::xxh3(std::as_bytes(std::span{bytes}.subspan(data, bytes.size() - 8 - data)));
      std::memcpy(&bytes[bytes.size() - 8], &hash, 8);
      write_file(file, bytes);
    }
  });
  auto const [count, not_zero] = padding_in(saves.second);
  CHECK(count > 0);
  CHECK(not_zero == count);
  CHECK(states_in(saves.second) == states);
  for (auto const& grid : {Grid{1, 1, 2, 0}, Grid{1, 1, 4, 3}}) {  // the same division, and another one
    Folder const again;
    train_grid(config_of(fp32_types, grid), grid, copying_grid(saves.second, again.path()));
    CHECK(states_in(again / "step_00000002") == states);
    CHECK(padding_in(again / "step_00000002").second == 0);
  }
}

TEST_CASE("a missing or damaged file of one tensor rank is reported on all ranks, at any number of them") {
  SavedGrid const saves;
  auto const place = saves.second / "place_00001.safetensors";  // file of the second tensor rank
  auto const good = read_file(place);
  for (auto const& grid : {Grid{2, 1, 2, 3}, Grid{1, 2, 1, 1}, Grid{1, 1, 4, 0}}) {
    INFO(grid.text());
    fs::remove(place);
    CHECK_THAT(said_by_grid(grid, [&](AnyEngine& engine) { engine.restore(saves.second); }),
               Contains("SystemError restore() failed and changed nothing") &&
                   Contains("place_00001.safetensors: cannot be opened"));
    write_file(place, read_file(saves.second / "place_00003.safetensors"));
    CHECK_THAT(said_by_grid(grid, [&](AnyEngine& engine) { engine.restore(saves.second); }),
               Contains("failed and changed nothing") && Contains("place_00001.safetensors: "));
    auto flipped = good;
    flipped[flipped.size() - 100] ^= 4;
    write_file(place, flipped);
    auto const restore = [&](AnyEngine& engine) { engine.restore(saves.second); };
    CHECK_THAT(said_by_grid(grid, restore, false),
               Contains("SystemError restore() failed after it had changed states") &&
                   Contains("place_00001.safetensors: is damaged between bytes") && Contains("of part 1 of 2"));
    CHECK(said_by_grid(grid, [&](AnyEngine& engine) {
            if (auto const restored = engine.restore_latest(saves.folder.path()); restored->step != 1) {
              throw SystemError{fmt::format("step {}", restored->step)};
            }
          }).empty());
    write_file(place, good);
  }
}

TEST_CASE("tensor ranks reject checkpoints of other models with the differences of whole parameters") {
  SavedGrid const saves;
  auto const config = config_of(fp32_types, {.tensor = 2});
  std::vector<std::string> wrong(2);
  CHECK(messages_of(run_job(2, [&](Job& job) {
          Mesh mesh{job, config};
          Model model{5, mesh.tensor_part()};
          auto const unit = model.unit("a");
          static_cast<void>(model.param(unit, "block0.first", {8, 12}, Normal{1}, {.cut = {{.dim = 1}}}));
          static_cast<void>(model.param(unit, "table", {8, 18}, Normal{1}, {.trainable = false}));
          Engine<float> engine{mesh, model, config};
          wrong[static_cast<std::size_t>(job.rank())] = error_of([&] { engine.restore(saves.second); });
        })) == "");
  for (auto const& each : wrong) {
    CHECK_THAT(
        each,
        Contains("ContractError restore() failed and changed nothing") &&
            Contains("parameter \"block0.first\" has shape [8, 24] in the checkpoint, but [8, 12] in the model") &&
            Contains("parameter \"table\" is trainable in the checkpoint, but frozen in the model") &&
            Contains("\"block1.gain\" in the checkpoint is not a parameter of the model"));
  }
}

TEST_CASE("a parameter may be divided differently than when it was saved") {
  struct Way {
    int tensor, data;
    Cut cut;
  };
  std::vector<std::int64_t> const shape{30, 12, 5};
  std::vector<Way> const ways{
      {1, 1, {0}},     {2, 1, {0, {10, 20}}},  {3, 2, {0}},        {3, 1, {1, {3, 9}}},     {4, 1, {1, {}}},
      {5, 1, {2, {}}}, {2, 2, {2, {2, 3}, 2}}, {4, 1, {2, {}, 3}}, {3, 1, {0, {1, 29}, 4}}, {2, 3, {1, {6, 6}, 5}}};
  std::vector<float> expected(30 * 12 * 5);
  std::iota(expected.begin(), expected.end(), 1.0F);
  auto const on = [&](Way const& way, auto const& work) {
    auto const config = config_of(fp32_types, {.data = way.data, .tensor = way.tensor, .zero = way.data});
    REQUIRE(messages_of(run_job(way.data * way.tensor, [&](Job& job) {
              Mesh mesh{job, config};
              Model model{1, mesh.tensor_part()};
              auto const unit = model.unit("u");
              auto const param = model.param(unit, "w", {30, 12, 5}, Constant{0}, {.cut = way.cut});
              static_cast<void>(model.param(unit, "gain", {7}, Constant{1}));
              Engine<float> engine{mesh, model, config};
              work(engine, param);
            })) == "");
  };
  for (std::size_t from = 0; from < ways.size(); ++from) {
    Folder const folder;
    on(ways[from], [&](auto& engine, auto const& param) {
      engine.write(param, expected);
      engine.save(folder.path()).wait();
    });
    auto const states = states_in(folder / "step_00000000");
    for (std::size_t to = 0; to < ways.size(); ++to) {
      static Sample sample{31, 3};
      if (sample.leaves_out()) {
        continue;
      }
      std::vector<std::vector<float>> seen(static_cast<std::size_t>(ways[to].tensor * ways[to].data));
      Folder const again;
      on(ways[to], [&](auto& engine, auto const& param) {
        engine.restore(folder.path());
        auto& values = seen[static_cast<std::size_t>(this_rank().rank)];
        values.resize(expected.size());
        engine.read(param, values);
        engine.save(again.path()).wait();
      });
      CAPTURE(from, to);
      for (auto const& values : seen) {
        REQUIRE(values == expected);
      }
      REQUIRE(states_in(again / "step_00000000") == states);
    }
  }
}

}  // namespace zeroth::testing
