// SPDX-License-Identifier: Apache-2.0
// train_gpt saves, is stopped or fails, and resumes.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "program.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace gpt;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::string const to_saved = small + "--checkpoint saved ";

/// Runs to its end, which is `status`.
std::string output_of(Place const& place, std::string const& more, int status = 0) {
  auto const result = run(place.command(more));
  INFO(more << "\n" << result.output);
  REQUIRE(result.ending.in_time);
  REQUIRE(result.ending.status == status);
  return result.output;
}

/// The numbers of steps after `step`.
json numbers_behind(std::int64_t step, std::vector<json> const& report) {
  json numbers = json::array();
  for (auto const& each : numbers_of(report)) {
    if (each[0].get<std::int64_t>() > step) {
      numbers.push_back(each);
    }
  }
  return numbers;
}

std::string weights_in(Place const& place, std::string const& folder) {
  return read_all(place / folder / "model.safetensors");
}

json record_in(fs::path const& checkpoint) { return json::parse(read_all(checkpoint / "checkpoint.json")); }

}  // namespace

TEST_CASE("a resumed run equals an uninterrupted one, also at another stage, and prints its checkpoint and changes") {
  auto const* const precision =
      GENERATE("", R"(, "bf16": {"enabled": true})", R"(, "fp16": {"enabled": true, "initial_scale_power": 40})");
  INFO(precision);
  Place const place;
  place.write("stage.json", stage_file(3, precision));
  std::string const shuffled = "--ranks 2 --order shuffled --seed 7 ";
  output_of(place, small + shuffled + "--steps 9 --report straight --save-final a");
  // Saving does not change training.
  output_of(place, to_saved + shuffled + "--steps 9 --save-every 2 --report saving --save-final b");
  CHECK(numbers_of(place.report("saving")) == numbers_of(place.report("straight")));
  CHECK(weights_in(place, "b") == weights_in(place, "a"));
  CHECK(place.report("saving")[0]["resumed"] == nullptr);
  CHECK(fs::exists(place / "saved/step_00000008/checkpoint.json"));
  CHECK(fs::exists(place / "saved/step_00000009/checkpoint.json"));  // the last checkpoint, of any step

  place.write("stage.json", stage_file(1, precision));
  auto const said =
      output_of(place, small + shuffled + "--resume saved/step_00000004 --steps 9 --report on --save-final c");
  CHECK(numbers_of(place.report("on")) == numbers_behind(4, place.report("straight")));
  CHECK(weights_in(place, "c") == weights_in(place, "a"));
  CHECK_THAT(said, Contains("resumes from saved/step_00000004 at step 4: 5 of 9 steps are left\n") &&
                       Contains("  zero_optimization.stage: 1, was 3\n") && Contains("step 5/9  loss") &&
                       !Contains("seed: "));
  auto const resumed = place.report("on")[0]["resumed"];
  CHECK(resumed["checkpoint"] == "saved/step_00000004");
  CHECK(resumed["step"] == 4);
  CHECK(resumed["samples"] == 4 * 8);
  CHECK(resumed["changes"].dump() == R"(["config.zero_optimization.overlap_comm: false, was true",)"
                                     R"("config.zero_optimization.stage: 1, was 3",)"
                                     R"("config.zeroth.gradient_slots: 1, was 2"])");  // the default of the stage
}

TEST_CASE("--resume auto begins without a checkpoint, resumes from one, and succeeds if all steps are done") {
  Place const place;
  output_of(place, small + "--steps 8 --report straight --save-final a");
  output_of(place, to_saved + "--resume auto --steps 3 --save-initial initial");
  auto const initial = weights_in(place, "initial");
  auto const said = output_of(place, to_saved +
                                         "--resume auto --steps 8 --keep 1 --report on --trace trace "
                                         "--save-initial initial --save-final b");
  CHECK_THAT(said, Contains("at step 3: 5 of 8 steps are left") && Contains("  steps: 8, was 3\n"));
  CHECK(numbers_of(place.report("on")) == numbers_behind(3, place.report("straight")));
  CHECK(weights_in(place, "b") == weights_in(place, "a"));
  CHECK(weights_in(place, "initial") == initial);  // unchanged, because this run did not start at the beginning
  CHECK_THAT(read_all(place / "trace"), Contains("backward"));
  CHECK_FALSE(fs::exists(place / "saved/step_00000003"));

  auto const record = read_all(place / "saved/step_00000008/checkpoint.json");
  for (auto const* const steps : {"8", "5"}) {
    auto const again = output_of(place, to_saved + "--resume auto --save-every 2 --save-final c --steps " + steps);
    CHECK_THAT(again, Contains(std::string{"saved/step_00000008 at step 8 has all of "} + steps +
                               " steps: nothing is left to train\n") &&
                          !Contains("step 9/"));
    CHECK(weights_in(place, "c") == weights_in(place, "a"));
    CHECK(read_all(place / "saved/step_00000008/checkpoint.json") == record);
  }
}

TEST_CASE("with a time --save-every saves whenever that much has passed, on all ranks after the same step") {
  Place const place;
  auto const saved_by = [&](std::string const& every) {
    output_of(place, small + "--ranks 2 --steps 30 --checkpoint " + every + " --save-final b --save-every " + every);
    std::size_t checkpoints = 0;
    for (auto const& each : fs::directory_iterator{place / every}) {
      checkpoints += each.path().filename().string().starts_with("step_") ? 1 : 0;
    }
    return checkpoints;
  };
  CHECK(saved_by("1e-3s") > 2);
  auto const often = weights_in(place, "b");
  CHECK(saved_by("1h") == 1);
  CHECK(weights_in(place, "b") == often);
}

TEST_CASE("a run that begins with --init resumes with its own weights") {
  Place const place;
  output_of(place, small + "--steps 4 --seed 3 --save-initial a --report straight --save-final b");
  output_of(place, "--checkpoint saved --resume auto --init a --steps 2");
  output_of(place, "--checkpoint saved --resume auto --init a --steps 4 --save-final c");
  CHECK(weights_in(place, "c") == weights_in(place, "b"));
}

TEST_CASE("a run that is asked to stop saves, exits with status 75, and can be resumed") {
  int const signal = GENERATE(SIGTERM, SIGUSR1, SIGINT);
  Place const place;
  Child child{place.command(to_saved + "--ranks 2 --steps 100000000 --save-every 7 --keep 2 --report report "
                                       "--save-final b --grace 200")};
  REQUIRE(child.wait_for("step 9/"));
  child.send(signal);
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 75);
  auto const last = steps_of(place.report()).back()["step"].get<int>();
  CHECK_THAT(child.output(), Contains("stopped after step " + std::to_string(last) + " of 100000000, which is saved"));
  CHECK_FALSE(fs::exists(place / "b"));  // no final model, because training is not finished
  auto const until = "--ranks 2 --steps " + std::to_string(last + 3);
  auto const said = output_of(place, to_saved + "--resume auto --report on --save-final b " + until);
  CHECK_THAT(said, Contains("at step " + std::to_string(last) + ": 3 of "));
  output_of(place, small + "--report straight --save-final a " + until);
  CHECK(numbers_of(place.report("on")) == numbers_behind(last, place.report("straight")));
  CHECK(weights_in(place, "b") == weights_in(place, "a"));
}

TEST_CASE("contradictory options for checkpoints are rejected with what to do") {
  Place const place;
  place.write("file", "no folder");
  output_of(place, to_saved + "--steps 2");
  output_of(place, small + "--checkpoint other --steps 1");
  auto const latest = read_all(place / "saved/latest");
  struct Row {
    std::string more, why;
    int status = 2;
  };
  for (auto const& row : std::vector<Row>{
           {"--checkpoint saved",
            "--checkpoint saved: has step_00000002 of another run, which this one would mix with its own: resume it "
            "with --resume auto, or give another folder to a run that begins anew"},
           {"--checkpoint saved --resume other", "or give another folder to a run that begins with other"},
           {"--checkpoint file", "--checkpoint file: is not a folder"},
           {"--checkpoint file/in", "--checkpoint file/in: cannot be written: Not a directory", 1},
           {"--resume nowhere", "--resume nowhere: there is no such folder"},
       }) {
    CHECK_THAT(output_of(place, small + "--steps 3 " + row.more, row.status), Contains(row.why));
  }
  CHECK(read_all(place / "saved/latest") == latest);
  fs::create_directory(place / "claimed");
  int const other = ::open((place / "claimed/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  REQUIRE(::flock(other, LOCK_EX | LOCK_NB) == 0);
  auto const refused = output_of(place, small + "--steps 3 --checkpoint claimed", 1);
  ::close(other);
  CHECK_THAT(refused, Contains("another job is saving here") && !Contains("step 1/3"));
  // Resuming from an earlier checkpoint of the same folder does not mix runs.
  output_of(place, to_saved + "--steps 4 --resume auto");
  output_of(place, to_saved + "--steps 3 --resume saved/step_00000002");
  CHECK(read_all(place / "saved/latest") == "step_00000003\n");
}

TEST_CASE("a checkpoint of other data, another seed or another model is rejected with both named") {
  Place const place;
  auto const shuffled = to_saved + "--order shuffled --steps 1 ";
  output_of(place, shuffled + "--seed 7");
  auto const samples = std::to_string((fs::file_size(place / "text") - 1) / 12);
  auto const of = [&](std::string const& count, char const* seed) {
    return count + " samples, shuffled with seed " + seed;
  };
  CHECK_THAT(output_of(place, shuffled + "--resume auto --seed 8", 2),
             Contains("its data are " + of(samples, "7") + ", but the program's are " + of(samples, "8")));
  CHECK_THAT(output_of(place, to_saved + "--steps 1 --resume auto --seed 7", 2),
             Contains("but the program's are " + samples + " samples in their own order"));
  place.write("text", squares() + squares());
  auto const twice = std::to_string((fs::file_size(place / "text") - 1) / 12);
  CHECK_THAT(output_of(place, shuffled + "--resume auto --seed 7", 2),
             Contains("its data are " + of(samples, "7") + ", but the program's are " + of(twice, "7")));
  auto other = squares();
  std::ranges::reverse(other);
  place.write("text", other);
  CHECK_THAT(output_of(place, shuffled + "--resume auto --seed 7", 2),
             Contains("its data are " + of(samples, "7") + ", with fingerprint "));
  place.write("text", squares());
  auto const wider = "--layers 2 --heads 2 --channels 32 --context 12 --order shuffled --seed 7 --steps 2 ";
  CHECK_THAT(output_of(place, std::string{wider} + "--checkpoint saved --resume auto", 2),
             Contains("checkpoint saved/step_00000001 does not fit:"));
}

TEST_CASE("ranks that are threads resume from the newest checkpoint after a failure, also without --resume",
          "[rank threads]") {
  Place const place;
  auto const text = read_all(place / "text");
  auto const ranks_and_steps = fmt::format("--ranks 2 --steps {} ", zeroth::testing::sanitized ? 300 : 700);
  Child child{place.command(to_saved + ranks_and_steps +
                            "--save-every 20 --keep 2 --max-restarts 9 --report report --save-final b")};
  REQUIRE(child.wait_for("step 45/"));  // the second save has completed the first one
  fs::resize_file(place / "text", 5);
  REQUIRE(child.wait_for("all ranks restart in "));
  place.write("text", text);
  auto const ending = child.wait();
  INFO(child.output());
  REQUIRE(ending.status == 0);
  CHECK_THAT(child.output(), Contains("resumes from saved/step_000") && Contains("--data text: had "));
  output_of(place, small + ranks_and_steps + "--report straight --save-final a");
  CHECK(weights_in(place, "b") == weights_in(place, "a"));
  auto const resumed = place.report()[0]["resumed"];
  CHECK(resumed["step"].get<int>() % 20 == 0);
  CHECK(numbers_of(place.report()) == numbers_behind(resumed["step"], place.report("straight")));
}

TEST_CASE("a failed save does not end the run, and a folder that cannot be claimed ends it before its first step") {
  Place const place;
  int const steps = zeroth::testing::sanitized ? 700 : 1500;
  Child child{place.command(to_saved + fmt::format("--steps {} --save-every 100 --save-final b", steps))};
  REQUIRE(child.wait_for("step 201/"));  // the second save has completed the first one
  fs::rename(place / "saved", place / "away");
  place.write("saved", "a file where the folder was");
  REQUIRE(child.wait_for("failed and changed nothing"));
  fs::remove(place / "saved");
  fs::rename(place / "away", place / "saved");
  auto const ending = child.wait();
  INFO(child.output());
  CHECK(ending.status == 0);
  auto const last = fmt::format("step_{:08}", steps);
  CHECK(read_all(place / "saved/latest") == last + "\n");
  CHECK(record_in(place / "saved" / last)["samples"] == steps * 4);

  Place const blocked;
  fs::create_directories(blocked / "saved/.lock");  // a folder is in the place of the lock file
  auto const refused = output_of(blocked, to_saved + "--steps 100000000 --save-every 2 --report report", 1);
  CHECK_THAT(refused, Contains("claim() failed and changed nothing: checkpoint saved/.lock: cannot be opened"));
  CHECK_THAT(refused, !Contains("step 1/"));
  CHECK_FALSE(fs::exists(blocked / "report"));
}

TEST_CASE("the run ends with the cause if no checkpoint can be used") {
  Place const place;
  output_of(place, to_saved + "--steps 2 --ranks 2");
  auto const file = place / "saved/step_00000002/place_00001.safetensors";
  auto bytes = read_all(file);
  bytes[bytes.size() - 4096] = static_cast<char>(bytes[bytes.size() - 4096] ^ 1);
  place.write("saved/step_00000002/place_00001.safetensors", bytes);
  auto const said = output_of(place, to_saved + "--steps 4 --ranks 2 --resume auto --max-restarts 1", 2);
  CHECK_THAT(said, Contains("place_00001.safetensors") && !Contains("all ranks restart"));
}

TEST_CASE("a run resumes with other numbers of tensor ranks and stages") {
  Place const place;
  auto const numbers = [&](int tensor, int pipeline, int stage, std::string const& rest) {
    place.write("stage.json", stage_file(stage));
    auto const result = run(place.command(fmt::format(
        "--layers 3 --heads 4 --channels 16 --context 12 --report report --untied-head --dropout 0.1 --ranks {} "
        "--set zeroth.mesh.tensor={} --set zeroth.mesh.pipeline={} --set zeroth.check=true {}",
        tensor * pipeline, tensor, pipeline, rest)));
    INFO(result.output);
    REQUIRE(result.ending.status == 0);
    return numbers_of(place.report());
  };
  std::string const sequence = "--set zeroth.sequence_parallel=true ";
  auto const straight = numbers(2, 1, 0, sequence + "--steps 3 --save-final straight");
  auto all = numbers(2, 2, 3, sequence + "--steps 2 --checkpoint saved --save-final saved_final");
  auto const rest = numbers(2, 1, 1, sequence + "--steps 3 --resume saved --save-final resumed");
  all.insert(all.end(), rest.begin(), rest.end());
  CHECK(all == straight);
  CHECK((read_all(place / "resumed/model.safetensors") == read_all(place / "straight/model.safetensors")));
  for (int const tensor : {1, 4}) {
    for (int const pipeline : {1, 2}) {
      INFO(tensor << " x " << pipeline);
      auto const copied = fmt::format("copied_{}_{}", tensor, pipeline);
      numbers(tensor, pipeline, 3, "--steps 2 --resume saved --save-final same --checkpoint " + copied);
      CHECK((read_all(place / "same/model.safetensors") == read_all(place / "saved_final/model.safetensors")));
      auto const step = numbers(tensor, pipeline, 2, sequence + "--steps 3 --resume saved");
      REQUIRE(step.size() == 1);
      CHECK(step[0][1].get<double>() == Approx(straight[2][1].get<double>()).epsilon(1e-5));
      CHECK(step[0][2].get<double>() == Approx(straight[2][2].get<double>()).epsilon(1e-5));
    }
  }
}
