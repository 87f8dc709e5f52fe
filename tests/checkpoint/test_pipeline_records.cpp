// SPDX-License-Identifier: Apache-2.0
/// Checkpoints of pipelines that are damaged, incomplete or forged, and checkpoints of version 1.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "checkpoint/record_format.hpp"
#include "engine/safetensors_file.hpp"
#include "pipeline_runs.hpp"
#include "small_run.hpp"
#include "support/folder.hpp"
#include "zeroth/checkpoint/file_reader.hpp"
#include "zeroth/checkpoint/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr Shape saved_by{.stages = 2, .data = 2, .zero = 2};

/// Saves after each of two steps.
struct SavedPipeline {
  Folder folder;
  fs::path first = folder / "step_00000001", second = folder / "step_00000002";
  explicit SavedPipeline(Shape const& shape = saved_by) {
    ChainRun run;
    run.options.steps = 2;
    run.after_step = [&](AnyEngine& engine, int) { engine.save(folder.path()).wait(); };
    train_chains(config_of(fp32_types, shape), shape, run);
  }
};

/// Forges a record with a matching hash.
void forge_record(fs::path const& checkpoint, std::string const& text) {
  auto const body = text.substr(0, text.rfind(",\n \"xxh3\""));
  write_file(checkpoint / "checkpoint.json", body + checkpoint::hash_line(body));
}

/// The error of `call(engine)` on the ranks of `shape`, the same on all; afterwards they train a step if they may.
std::string said_by(Shape const& shape, std::function<void(AnyEngine&)> const& call, bool trains = true) {
  std::vector<std::string> said(static_cast<std::size_t>(shape.world()));
  ChainRun run;
  run.options.steps = trains ? 1 : 0;
  run.begin = [&](AnyEngine& engine) {
    said[static_cast<std::size_t>(this_rank().rank)] = error_of([&] { call(engine); });
    return 0;
  };
  train_chains(config_of(fp32_types, shape), shape, run);
  for (auto const& each : said) {
    CHECK(each == said.front());
  }
  return said.front();
}

}  // namespace

TEST_CASE("forged records of pipelines are refused") {
  SavedPipeline const saves;
  auto const good = read_file(saves.second / "checkpoint.json");
  auto const forge = [&](std::string const& part, std::string const& by) {
    auto text = good;
    auto const at = text.find(part);
    REQUIRE(at != std::string::npos);
    forge_record(saves.second, text.replace(at, part.size(), by));
    return thrown<DamagedError>([&] { return checkpoint::read_record(saves.second); });
  };
  std::string const of_second = R"("first_place":2,"places":2)";
  CHECK(forge(of_second, of_second).empty());
  CHECK_THAT(forge(of_second, R"("first_place":4,"places":2)"),
             Contains("first_place is 4; allowed: a whole number from 0 to 3"));
  CHECK_THAT(forge(of_second, R"("first_place":-1,"places":2)"), Contains("first_place is -1"));
  CHECK_THAT(forge(of_second, R"("first_place":2,"places":3)"),
             Contains("places is 3; allowed: a whole number from 1 to 2"));
  CHECK_THAT(forge(of_second, R"("first_place":2,"places":0)"), Contains("places is 0"));
  CHECK_THAT(forge(of_second, R"("first_place":2)"), Contains("places is missing"));
  CHECK_THAT(forge(of_second, R"("places":2)"), Contains("first_place is missing"));
  CHECK_THAT(forge(of_second, R"("first_place":1,"places":2)"),
             Contains("some of which share other units with files outside these"));
  CHECK_THAT(forge(R"("first_place":0,"places":2)", R"("first_place":0,"places":3)"),
             Contains("some of which share other units with files outside these"));
  CHECK_THAT(forge(of_second, R"("first_place":0,"places":2)"), Contains("but those before it end at"));
  CHECK_THAT(forge("\"tied.b\"", "\"layer0.b\""), Contains("parameter \"layer0.b\" occurs twice"));
  CHECK_THAT(forge("\"format\":2", "\"format\":1"), Contains("but those before it end at"));
  CHECK(forge("\"places\":4", "\"places\":5").empty());  // the record is plausible; only the files show that it is
                                                         // wrong
  CHECK_THAT(said_by({.stages = 2, .data = 1}, [&](AnyEngine& engine) { engine.restore(saves.second); }),
             Contains("its header is damaged"));
}

TEST_CASE("a missing or damaged file of one stage is reported on all ranks, at any number of stages") {
  SavedPipeline const saves;
  auto const place = saves.second / "place_00003.safetensors";
  auto const good = read_file(place);
  for (auto const& shape : {Shape{.stages = 2, .data = 2, .zero = 3}, Shape{.stages = 4, .data = 1, .zero = 1},
                            Shape{.stages = 1, .data = 2, .zero = 0}}) {
    INFO(shape.text());
    fs::remove(place);
    CHECK_THAT(said_by(shape, [&](AnyEngine& engine) { engine.restore(saves.second); }),
               Contains("SystemError restore() failed and changed nothing") &&
                   Contains("place_00003.safetensors: cannot be opened"));
    write_file(place, read_file(saves.second / "place_00001.safetensors"));
    CHECK_THAT(said_by(shape, [&](AnyEngine& engine) { engine.restore(saves.second); }),
               Contains("failed and changed nothing") && Contains("place_00003.safetensors: "));
    auto flipped = good;
    flipped[flipped.size() - 100] ^= 4;
    write_file(place, flipped);
    auto const of_stage = [&](AnyEngine& engine) { engine.restore(saves.second); };
    CHECK_THAT(said_by(shape, of_stage, false), Contains("SystemError restore() failed after it had changed states") &&
                                                    Contains("place_00003.safetensors: is damaged between bytes"));
    CHECK(said_by(shape, [&](AnyEngine& engine) {
            if (auto const restored = engine.restore_latest(saves.folder.path()); restored->step != 1) {
              throw SystemError{fmt::format("step {}", restored->step)};
            }
          }).empty());
    write_file(place, good);
  }
}

TEST_CASE("the report of damage names the parameters of the stage that saved the file") {
  SavedPipeline const saves;
  checkpoint::Reader reader{saves.second};
  auto const& contents = reader.record().contents;
  REQUIRE(contents.stages() == 2);
  auto const found = contents.by_name();
  for (auto const* const name : {"layer0.w", "layer5.w"}) {
    auto const at = found.find(name).front();
    auto const& space = contents.spaces[at.space];
    CHECK(space.first_place == (name == std::string{"layer0.w"} ? 0 : 2));
    auto const& state = space.states[1];
    auto const piece = checkpoint::pieces_of(space, state, space.params[at.param].at + 3, 1).front();
    CHECK(piece.place / 2 == space.first_place / 2);
    auto const extents = checkpoint::extents_at(contents, piece.place, piece.begin, piece.begin + piece.bytes, 9);
    REQUIRE(extents.listed.size() == 1);
    CHECK(extents.listed.front().param == name);
    CHECK(extents.listed.front().state == state.name);
    CHECK(extents.listed.front().first == 3);
    CHECK(extents.listed.front().last == 4);
  }
}

TEST_CASE("a pipeline rejects checkpoints of other models with the differences of all stages") {
  SavedPipeline const saves;
  auto const config = config_of(fp32_types, {.stages = 2, .data = 1});
  std::vector<std::string> wrong(2);
  CHECK(messages_of(run_job(2, [&](Job& job) {
          Model model{5};
          static_cast<void>(model.param(model.unit("a"), "layer0.b", {10, 2}, Normal{1}));
          static_cast<void>(
              model.param(model.unit("b", {.input_per_sample = 1}), "tied.b", {12}, Normal{1}, {.trainable = false}));
          Mesh mesh{job, config};
          Engine<float> engine{mesh, model, config};
          wrong[static_cast<std::size_t>(job.rank())] = error_of([&] { engine.restore(saves.second); });
        })) == "");
  for (auto const& each : wrong) {
    CHECK_THAT(each,
               Contains("ContractError restore() failed and changed nothing") &&
                   Contains("parameter \"layer0.b\" has shape [20] in the checkpoint, but [10, 2] in the model") &&
                   Contains("parameter \"tied.b\" is trainable in the checkpoint, but frozen in the model") &&
                   Contains("\"layer5.w\" in the checkpoint is not a parameter of the model"));
  }
}

TEST_CASE("checkpoints of version 1 are read, with a pipeline and without one") {
  SavedPipeline const saves{{.stages = 1, .data = 3, .zero = 2}};
  auto const states = states_in(saves.second);
  auto text = read_file(saves.second / "checkpoint.json");
  auto const contents = checkpoint::read_record(saves.second).contents;
  text = std::regex_replace(text, std::regex{R"("first_place":0,"places":3,)"}, "");
  text = std::regex_replace(text, std::regex{R"("format":2)"}, R"("format":1)");
  text = std::regex_replace(text, std::regex{R"("spaces":)"},
                            fmt::format(R"("state_bytes":{},"spaces":)", contents.state_bytes(0)));
  forge_record(saves.second, text);
  CHECK(states_in(saves.second) == states);
  for (auto const& shape : {Shape{.stages = 1, .data = 2, .zero = 3}, Shape{.stages = 4, .data = 1, .zero = 1}}) {
    INFO(shape.text());
    Folder const again;
    CHECK(said_by(shape, [&](AnyEngine& engine) {
            engine.restore(saves.folder.path());
            engine.save(again.path()).wait();
          }).empty());
    CHECK(states_in(again / "step_00000002") == states);
  }
  auto const at = text.find("\"state_bytes\":") + 14;
  forge_record(saves.second, text.substr(0, at) + "1" + text.substr(at));
  CHECK_THAT(thrown<DamagedError>([&] { return checkpoint::read_record(saves.second); }),
             Contains("but the states have"));
}

}  // namespace zeroth::testing
