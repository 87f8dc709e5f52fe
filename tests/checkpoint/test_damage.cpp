// SPDX-License-Identifier: Apache-2.0
/// Checkpoints that are damaged, incomplete, of another model, or forged: the errors, and the states that must not
/// change.
#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/record_format.hpp"
#include "runs.hpp"
#include "small_run.hpp"
#include "support/log.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "zeroth/checkpoint/folder.hpp"
#include "zeroth/tool/core/input_file.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

std::string read_all(fs::path const& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}
void write_all(fs::path const& file, std::string const& text) {
  std::ofstream out{file, std::ios::binary};
  out << text;
}
/// Forges a record with a matching hash.
void write_record(fs::path const& checkpoint, std::string const& text) {
  auto const body = text.substr(0, text.rfind(",\n \"xxh3\""));
  write_all(checkpoint / "checkpoint.json", body + checkpoint::hash_line(body));
}

/// Two saves of a small model with two ranks, after steps 1 and 2.
struct TwoSaves {
  Folder folder;
  fs::path first = folder / "step_00000001", second = folder / "step_00000002";
  TwoSaves() {
    run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
      for (int step = 0; step < 2; ++step) {
        train(engine, small, 1);
        engine.save(folder.path(), {.program_state = {}, .order = SampleOrder{500}, .keep = {}}).wait();
      }
    });
  }
};

/// The error of restoring `path` on rank 0 of three. Afterwards the engine saves if it may, and trains.
struct Told {
  std::string error, after;
};
Told restore_fails(fs::path const& path, RestoreOptions const& options = {}, Config const& config = small_config(3)) {
  auto const errors = run_small(3, config, [&](auto& engine, auto& small, auto& notes) {
    notes.push_back(error_of([&] { engine.restore(path, options); }));
    notes.push_back(error_of([&] { train(engine, small, 1); }));
  });
  for (auto const& each : errors) {
    REQUIRE(each == errors.front());
  }
  return {errors.front().at(0), errors.front().at(1)};
}

}  // namespace

TEST_CASE("damage that is found before states change leaves the engine as it was") {
  TwoSaves const saves;
  auto const place = saves.second / "place_00001.safetensors";
  auto const good = read_all(place);
  auto const record = read_all(saves.second / "checkpoint.json");
  auto const check = [&](std::string const& part) {
    auto const told = restore_fails(saves.second);
    CHECK_THAT(told.error, Contains("SystemError restore() failed and changed nothing") && Contains(part));
    CHECK(told.after.empty());
    write_all(place, good);
    write_all(saves.second / "checkpoint.json", record);
  };
  auto flipped = good;
  flipped[600] ^= 1;
  write_all(place, flipped);
  check("place_00001.safetensors: its header is damaged at byte 600");

  write_all(place, good.substr(0, good.size() - 8));
  check(
      fmt::format("place_00001.safetensors: has {} bytes, but this checkpoint needs {}", good.size() - 8, good.size()));

  fs::remove(place);
  check("place_00001.safetensors: cannot be opened: No such file or directory");

  fs::remove(place);
  fs::create_directory(place);
  auto const told = restore_fails(saves.second);
  CHECK_THAT(told.error, Contains("place_00001.safetensors: is a folder; allowed: a regular file"));
  fs::remove(place);

  write_all(place, read_all(saves.first / "place_00001.safetensors"));
  check("place_00001.safetensors: belongs to another save than checkpoint.json");

  write_all(place, read_all(saves.second / "place_00000.safetensors"));
  check("place_00001.safetensors: its header is damaged at byte");

  auto text = record;
  write_all(saves.second / "place_00002.safetensors", "of nobody");
  CHECK(restore_fails(saves.second).error.empty());
  fs::remove(saves.second / "place_00002.safetensors");

  text[text.find("\"step\"") + 7] = '7';
  write_all(saves.second / "checkpoint.json", text);
  check("checkpoint.json: is damaged: hash mismatch");

  write_all(saves.second / "checkpoint.json", record.substr(0, record.size() / 2));
  check("checkpoint.json: is damaged: it does not end with its hash");
}

TEST_CASE("damaged states are found before they are used, and another restore repairs the engine") {
  TwoSaves const saves;
  auto const place = saves.second / "place_00001.safetensors";
  auto const good = read_all(place);
  checkpoint::Reader const reader{saves.second};
  auto const& contents = reader.record().contents;
  auto const data = checkpoint::file_header(contents, 1, reader.record().save_id).size();
  auto const check = [&](std::size_t byte, std::string const& part) {
    auto flipped = good;
    flipped[byte] ^= 4;
    write_all(place, flipped);
    auto const errors = run_small(3, small_config(1), [&](auto& engine, auto& small, auto& notes) {
      notes.push_back(error_of([&] { engine.restore(saves.second); }));
      notes.push_back(error_of([&] { train(engine, small, 1); }));
      notes.push_back(error_of([&] { engine.save(saves.folder / "elsewhere"); }));
      notes.push_back(error_of([&] { engine.restore(saves.first); }));
      notes.push_back(error_of([&] { train(engine, small, 1); }));
    });
    for (auto const& each : errors) {
      CHECK_THAT(each[0], Contains("SystemError restore() failed after it had changed states") && Contains(part));
      CHECK_THAT(each[1], Contains("a failed restore() left states partly changed"));
      CHECK_THAT(each[2], Contains("a failed restore() left states partly changed"));
      CHECK(each[3].empty());
      CHECK(each[4].empty());
    }
  };
  check(data, "place_00001.safetensors: is damaged between bytes");
  check(data + 5, "master of \"block0.w\" elements [256, 300)");
  check(good.size() - 1, "hash mismatch");
}

TEST_CASE("a checkpoint of another model, optimizer, dtype or data set is rejected with all differences") {
  TwoSaves const saves;
  auto const told = restore_fails(saves.second, {.order = SampleOrder{501}});
  CHECK_THAT(told.error,
             Contains("ContractError restore() failed and changed nothing") &&
                 Contains("its data are 500 samples, shuffled with seed 0, but the program's are 501 samples"));
  CHECK(told.after.empty());
  CHECK(restore_fails(saves.second, {.order = SampleOrder{500}}).error.empty());

  auto const other = Config::from_json(R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "Lion"},
                                           "zero_optimization": {"stage": 3}})");
  CHECK_THAT(restore_fails(saves.second, {}, other).error,
             Contains("states are master, exp_avg, exp_avg_sq (optimizer AdamW), but the stage file's optimizer keeps "
                      "master, exp_avg"));
  std::vector<std::string> wrong(2);
  auto const outcome = run_job(2, [&](Job& job) {
    Model model{3};
    auto const unit = model.unit("block0");
    static_cast<void>(model.param(unit, "block0.w", {300}, Normal{0.5F}, {.trainable = false}));
    static_cast<void>(model.param(unit, "block1.w", {30, 10}, Normal{0.5F}));
    static_cast<void>(model.param(unit, "new.w", {10}, Normal{0.5F}));
    Engine<float> engine{job, model, small_config(2)};
    wrong[static_cast<std::size_t>(job.rank())] = error_of([&] { engine.restore(saves.second); });
  });
  REQUIRE(messages_of(outcome) == "");
  for (auto const& each : wrong) {
    CHECK_THAT(each,
               Contains("parameter \"block0.w\" is trainable in the checkpoint, but frozen in the model") &&
                   Contains("parameter \"block1.w\" has shape [300] in the checkpoint, but [30, 10] in the model") &&
                   Contains("parameter \"new.w\" is not in the checkpoint") &&
                   Contains("\"block2.w\" in the checkpoint is not a parameter of the model") &&
                   Contains("\"block1.frozen\" in the checkpoint is not a parameter of the model"));
  }
}

TEST_CASE("states of other dtypes are rejected, or rounded if the program asks for it") {
  Folder const folder;
  auto const from = train(2, varied_file(bf16_types, 2), saving(folder / "fp32", 3, 3));
  auto const text = varied_file(bf16_masters_and_moments, 3);
  std::string refused;
  auto options = resuming(folder / "fp32", 3, folder / "unused");
  options.begin = [&](AnyEngine& engine) {
    auto const error = error_of([&] { engine.restore(folder / "fp32"); });
    engine.restore(folder / "fp32", {.order = {}, .convert = true});
    engine.save(folder / "bf16").wait();
    if (this_rank().rank == 0) {
      refused = error;
    }
    return 3;
  };
  auto const to = train(2, text, options);
  CHECK_THAT(refused, Contains("state master is saved as fp32, but is bf16 here: RestoreOptions::convert rounds it") &&
                          Contains("state exp_avg is saved as fp32, but is bf16 here"));
  CHECK(to.parameters == from.parameters);
  auto const wide = states_in(folder / "fp32/step_00000003");
  auto const narrow = states_in(folder / "bf16/step_00000003");
  REQUIRE(wide.size() == narrow.size());
  for (auto const& [name, bytes] : wide) {
    INFO(name);
    auto const& rounded = narrow.at(name);
    bool const is_frozen = name.starts_with("frozen");
    REQUIRE(rounded.size() == (is_frozen ? bytes.size() : bytes.size() / 2));
    for (std::size_t i = 0; !is_frozen && i < bytes.size() / 4; ++i) {
      float value = 0;
      bf16 held{};
      std::memcpy(&value, &bytes[4 * i], 4);
      std::memcpy(&held, &rounded[2 * i], 2);
      REQUIRE(held.bits == from_float<bf16>(value).bits);
    }
  }
}

TEST_CASE("restore_latest() takes the newest usable checkpoint, and logs which ones it passes over") {
  TwoSaves const saves;
  auto const restored_step = [&] {
    std::int64_t step = -1;
    run_small(2, small_config(3), [&](auto& engine, auto& small, auto&) {
      auto const restored = engine.restore_latest(saves.folder.path());
      if (this_rank().rank == 0) {
        step = restored->step;
      }
      train(engine, small, 1);
    });
    return step;
  };
  CHECK(restored_step() == 2);
  auto const place = saves.second / "place_00000.safetensors";
  auto flipped = read_all(place);
  flipped[flipped.size() / 2] ^= 1;
  write_all(place, flipped);
  {
    Log const log;
    CHECK(restored_step() == 1);
    CHECK(log.count("place_00000.safetensors: is damaged") == 1);
    CHECK(log.count("trying step_00000001") == 1);
  }
  fs::remove_all(saves.second);  // `latest` still names it
  CHECK(restored_step() == 1);
  CHECK_THAT(restore_fails(saves.folder.path()).error,
             Contains("latest names \"step_00000002\", which is not a checkpoint"));
  for (auto const* const name : {"../../etc", "", "step_1", "step_00000001/../.."}) {
    write_all(saves.folder / "latest", name);
    INFO(name);
    CHECK_THAT(restore_fails(saves.folder.path()).error, Contains("SystemError"));
    CHECK(restored_step() == 1);
  }
  write_all(saves.first / "checkpoint.json", "{}");
  auto const errors = run_small(2, small_config(3), [&](auto& engine, auto&, auto& notes) {
    notes.push_back(error_of([&] { engine.restore_latest(saves.folder.path()); }));
  });
  CHECK_THAT(errors.front().front(), Contains("SystemError restore() failed and changed nothing"));
}

TEST_CASE("restore_latest() logs what it passes over, and throws if no checkpoint is left") {
  TwoSaves const saves;
  auto const folder = saves.folder.path();
  auto const latest = [&](RestoreOptions const& options = {}) {
    auto const notes = run_small(2, small_config(3), [&](auto& engine, auto&, auto& own) {
      own.push_back(error_of([&] {
        auto const restored = engine.restore_latest(folder, options);
        own.push_back(restored ? fmt::format("step {}", restored->step) : "nothing");
      }));
    });
    CHECK(notes[0] == notes[1]);
    return notes.front().front();
  };
  auto const record = read_all(saves.second / "checkpoint.json");
  auto odd = record;
  odd.insert(odd.find("\"spaces\":[{") + 11, "\"of_each_rank\":true,");
  write_record(saves.second, odd);
  CHECK_THROWS_WITH(checkpoint::read_record(saves.second),
                    Contains("spaces has a slice of each rank") || Contains("are beyond the unit's"));
  auto newer = record;
  newer.replace(newer.find("\"format\":2"), 10, "\"format\":6");
  write_record(saves.second, newer);
  CHECK_THAT(latest(), Contains("ContractError restore() failed and changed nothing") &&
                           Contains("its format is 6, but this version of Zeroth reads formats 1 to 5"));
  Log const log;
  CHECK(log.count("; trying ") == 0);
  fs::remove(saves.second / "checkpoint.json");
  CHECK(latest() == "step 1");
  CHECK(log.count("step_00000002: checkpoint.json cannot be opened: No such file or directory; trying step_00000001") ==
        1);
  fs::create_directory(saves.second / "checkpoint.json");
  CHECK(latest() == "step 1");
  CHECK(log.count("step_00000002: checkpoint.json is a folder; allowed: a regular file; trying step_00000001") == 1);
  fs::remove_all(saves.second);
  CHECK(latest() == "step 1");
  CHECK(log.count("latest names \"step_00000002\", which is not a checkpoint in this folder; trying step_00000001") ==
        1);

  fs::remove(saves.first / "checkpoint.json");
  CHECK_THAT(latest(), Contains("SystemError restore() failed and changed nothing") && Contains("step_00000001"));
  RestoreOptions start_over;
  start_over.start_over_if_all_damaged = true;
  CHECK(latest(start_over) == "nothing");
  CHECK(log.count("no other checkpoint is left, and training starts over") == 1);
  fs::remove_all(saves.first);
  CHECK_THAT(latest(),
             Contains("SystemError") && Contains("latest names \"step_00000002\", which is not a checkpoint"));
  CHECK(latest(start_over) == "nothing");
  fs::remove(folder / "latest");
  CHECK(latest() == "nothing");
}

TEST_CASE("a program that starts over because states are damaged trains as if there had been no checkpoint") {
  TwoSaves const saves;
  for (auto const& path : {saves.first, saves.second}) {
    auto const file = path / "place_00000.safetensors";
    auto bytes = read_all(file);
    bytes[bytes.size() - 100] ^= 1;
    write_all(file, bytes);
  }
  RestoreOptions start_over;
  start_over.start_over_if_all_damaged = true;
  std::vector<std::vector<StepReport>> reports(2);
  for (bool const restores : {true, false}) {
    run_small(1, small_config(2), [&](auto& engine, auto& small, auto&) {
      if (restores) {
        REQUIRE_FALSE(engine.restore_latest(saves.folder.path(), start_over));
      }
      reports[restores ? 1 : 0] = train(engine, small, 2);
    });
  }
  CHECK(reports[0].back().loss == reports[1].back().loss);
  CHECK(reports[0].back().grad_norm == reports[1].back().grad_norm);
}

TEST_CASE("damaged checkpoints do not count toward the number that is kept") {
  TwoSaves const saves;
  fs::remove(saves.second / "place_00001.safetensors");
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 3);
    engine.save(saves.folder.path(), {.program_state = {}, .order = {}, .keep = 2}).wait();
  });
  CHECK(fs::exists(saves.first / "checkpoint.json"));
  run_small(2, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 4);
    engine.save(saves.folder.path(), {.program_state = {}, .order = {}, .keep = 2}).wait();
  });
  CHECK(saves.folder.contents() == ".lock latest step_00000003 step_00000004 ");
}

TEST_CASE("forged records are refused") {
  TwoSaves const saves;
  auto const good = read_all(saves.second / "checkpoint.json");
  auto const forge = [&](std::string const& part, std::string const& by) {
    auto text = good;
    auto const at = text.find(part);
    REQUIRE(at != std::string::npos);
    write_record(saves.second, text.replace(at, part.size(), by));
    return thrown<DamagedError>([&] { return checkpoint::read_record(saves.second); });
  };
  CHECK(forge("\"step\":2", "\"step\":2").empty());
  CHECK_THAT(forge("\"step\":2", "\"step\":-2"), Contains("step is -2; allowed: a whole number from 0"));
  CHECK_THAT(forge("\"step\":2", "\"step\":1"), Contains("applied is 2; allowed: a whole number from 0 to 1"));
  CHECK_THAT(forge("\"step\":2", "\"stop\":2"), Contains("step is missing"));
  CHECK_THAT(forge("\"samples\":16", "\"samples\":9223372036854775777"),
             Contains("samples is 9223372036854775777; allowed: a whole number from 0 to 1152921504606846976"));
  CHECK_THAT(forge("\"places\":2", "\"places\":0"), Contains("places is 0"));
  CHECK_THAT(forge("\"places\":2", "\"places\":3000000000"), Contains("places is 3000000000"));
  CHECK_THAT(forge("\"slice_count\":256", "\"slice_count\":9007199254740993"), Contains("slice_count"));
  CHECK_THAT(forge("\"slice_count\":256", "\"slice_count\":0"), Contains("slice_count is 0"));
  CHECK_THAT(forge("\"base\":1024", "\"base\":1028"), Contains("begins at byte 1028, but those before it end at 1024"));
  CHECK_THAT(forge("\"at\":0", "\"at\":300"), Contains("are beyond the unit's 512 or another parameter's"));
  CHECK_THAT(forge("\"dtype\":\"fp32\"", "\"dtype\":\"int8\""),
             Contains("dtype is \"int8\"; allowed: fp32, bf16 and fp16"));
  CHECK_THAT(forge("\"name\":\"exp_avg_sq\"", "\"name\":\"exp_avg\""), Contains("the state \"exp_avg\" occurs twice"));
  CHECK_THAT(forge("block1.w", "block0.w"), Contains("parameter \"block0.w\" occurs twice"));
  CHECK_THAT(forge("[300]", "[-300]"), Contains("allowed: extents from 1 on"));
  CHECK_THAT(forge("\"program_state\":\"\"", "\"program_state\":\"0g\""), Contains("not a byte in hexadecimal"));
  CHECK_THAT(forge("\"model_seed\":\"3\"", "\"model_seed\":\"x\""), Contains("digits of a whole number below 2^64"));
  CHECK_THAT(forge("block1.w", "__metadata__"), Contains("allowed: names that a model allows for parameters"));
  CHECK(forge("\"places\":2", "\"places\":16777216").empty());  // the record is plausible; only the files show that it
                                                                // is wrong
  CHECK_THAT(restore_fails(saves.second).error, Contains("place_00000.safetensors: its header is damaged"));
}

TEST_CASE("another optimizer or data set is rejected even if sizes and state names are the same") {
  Folder const folder;
  auto const order = [](std::uint64_t fingerprint) {
    return SampleOrder{500, {.seed = 1, .shuffled = true, .fingerprint = fingerprint}};
  };
  run_small(2, small_config(2), [&](auto& engine, auto&, auto&) {
    engine.save(folder.path(), {.program_state = {}, .order = order(5), .keep = {}}).wait();
  });
  auto const error = [&](std::uint64_t fingerprint, Config const& config = small_config(2)) {
    RestoreOptions options;
    options.order = order(fingerprint);
    return restore_fails(folder.path(), options, config).error;
  };
  CHECK(error(5).empty());
  CHECK(error(0).empty());  // no fingerprint is given
  CHECK_THAT(error(6), Contains("ContractError") && Contains("seed 1, with fingerprint 0000000000000005, but the") &&
                           Contains("with fingerprint 0000000000000006"));
  auto const with_l2 = small_config(2).with(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})");
  CHECK_THAT(error(5, with_l2),
             Contains("ContractError") && Contains("its optimizer is AdamW, but the stage file's is Adam"));
}

TEST_CASE("the texts of a checkpoint are those of a JSON library, whatever the names are") {
  for (std::string const name : {"plain", "quote\" back\\slash", "tab\t and \x01 and \x7f", "Wörter ∑ 😀", "/", ""}) {
    CAPTURE(name);
    checkpoint::Record record;
    record.save_id = "id " + name;
    auto& contents = record.contents;
    contents.places = 2;
    contents.tensor_ranks = 2;
    contents.rank_states = {3, 0};
    checkpoint::SavedParam whole, part;
    whole.name = name + "w";
    whole.shape = {4, 3};
    whole.count = 12;
    whole.at = 1;
    whole.ties = {name, "b"};
    part.name = name + "p";
    part.shape = {4, 2};
    part.count = 4;
    part.at = 14;
    part.cut.emplace();
    part.cut->cut.sections = {2, 2};
    part.cut->part = {1, 2};
    auto& space = contents.spaces.emplace_back();
    space.unit = "unit " + name;
    space.places = 2;
    space.slice_count = 10;
    space.states = {{"master", Dtype::fp32, 0}, {"exp_avg", Dtype::bf16, 40}};
    space.params = {whole, part};
    auto errors = space;
    errors.of_each_rank = true;
    errors.params.clear();
    contents.errors.push_back(errors);
    contents.groups = {{.first_place = 0, .places = 2, .state_bytes = 120}};
    auto const text = checkpoint::to_text(record);
    auto json = nlohmann::ordered_json::parse(text);
    auto const end = text.rfind(",\n \"xxh3\"");
    json.erase("xxh3");
    CHECK(json.dump() == text.substr(0, end) + "}");
    for (int place = 0; place < 2; ++place) {
      auto const header = checkpoint::file_header(contents, place, record.save_id).substr(8);
      auto const trimmed = header.substr(0, header.find_last_not_of(' ') + 1);
      CHECK(nlohmann::ordered_json::parse(header).dump() == trimmed);
    }
  }
}

TEST_CASE("a record too large to be read is not written, and one above the limit for other texts is read") {
  TwoSaves const saves;
  auto const record = checkpoint::read_record(saves.second);
  auto const bytes = std::ssize(checkpoint::to_text(record));
  CHECK(checkpoint::to_text(record, bytes).size() == static_cast<std::size_t>(bytes));
  CHECK_THAT(thrown<SystemError>([&] { static_cast<void>(checkpoint::to_text(record, bytes - 1)); }),
             Contains(fmt::format("checkpoint.json would have {} bytes", bytes)) &&
                 Contains(fmt::format("allowed are up to {}", bytes - 1)));
  fs::resize_file(saves.second / "checkpoint.json", static_cast<std::uintmax_t>(largest_text) + 1);  // the new part is
                                                                                                     // a hole
  CHECK_THAT(thrown<SystemError>([&] { static_cast<void>(checkpoint::read_record(saves.second)); }),
             Contains("it does not end with its hash"));
}

TEST_CASE("a forged sparse file of several TiB needs no memory for its table of hashes") {
  Folder const folder;
  run_small(1, small_config(2), [&](auto& engine, auto& small, auto&) {
    train(engine, small, 1);
    engine.save(folder.path()).wait();
  });
  auto const path = folder / "step_00000001";
  auto record = checkpoint::read_record(path);
  auto& contents = record.contents;
  contents.spaces.front().slice_count = std::int64_t{1} << 39U;
  checkpoint::place_states(contents);
  write_all(path / "checkpoint.json", checkpoint::to_text(record));
  auto const header = checkpoint::file_header(contents, 0, record.save_id);
  auto const place = path / "place_00000.safetensors";
  write_all(place, header);
  auto const table_bytes = 8 * checkpoint::hash_count(contents, 0);
  REQUIRE(table_bytes > 48 << 20);
  fs::resize_file(place, header.size() + static_cast<std::uintmax_t>(contents.state_bytes(0) + table_bytes));

  REQUIRE(forget_peak());
  auto const before = resident_bytes();
  checkpoint::Reader reader{path};
  reader.check_file(0);
  std::vector<std::byte> values(400);
  auto const last_state = reader.record().contents.spaces.front().states.size() - 1;
  auto const told = thrown<SystemError>([&] {
    reader.read(std::vector{checkpoint::Found{0, 0}}, last_state, 100, values);
  });
  CHECK_THAT(told, Contains("place_00000.safetensors: is damaged between bytes"));
  CHECK(reader.damage(0, false).empty());
  CHECK((sanitized || peak_resident_bytes() - before < 16 << 20));
}

TEST_CASE("records of random bytes are read or refused") {
  TwoSaves const saves;
  auto const good = read_all(saves.second / "checkpoint.json");
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  auto const below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>{0, count - 1}(random);
  };
  constexpr std::string_view bytes = "0123456789-{}[],:\"\\eE.ntf\x01\xff ";
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto text = good;
    for (auto changes = 1 + below(4); changes > 0; --changes) {
      auto const at = below(text.size() - 64);
      below(3) == 0 ? text.erase(at, below(20)) : text.insert(at, 1, bytes[below(bytes.size())]);
    }
    write_record(saves.second, text);
    refused += thrown<Error>([&] { return checkpoint::read_record(saves.second); }).empty() ? 0 : 1;
  }
  CHECK(refused > 500);  // about half are, so that fewer are not chance
}

}  // namespace zeroth::testing
