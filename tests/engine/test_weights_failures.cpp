// SPDX-License-Identifier: Apache-2.0
/// Files of weights that cannot be written or read: every rank gets the same error, and the engine remains usable.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/safetensors_file.hpp"
#include "engine/small_model.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/hooked.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

constexpr int world = 3;

/// Type and message of the error that `call` throws, without the rank prefix.
std::string thrown_by(std::function<void()> const& call) {
  auto const bare = [](std::exception const& error) { return std::string{error.what()}.substr(rank_prefix().size()); };
  try {
    call();
  } catch (ContractError const& error) {
    return "ContractError " + bare(error);
  } catch (SystemError const& error) {
    return "SystemError " + bare(error);
  } catch (std::exception const& error) {
    return "another " + bare(error);
  }
  return "nothing";
}

struct Result {
  std::vector<std::string> errors;  ///< By rank.
  std::string trained;              ///< The file saved at the end.
};

/// Trains a step, runs `meanwhile`, trains two more steps and saves.
Result train_with(int stage, Folder const& folder,
                  std::function<void(Engine<float>& engine, int rank)> const& meanwhile) {
  Result result{std::vector<std::string>(world), {}};
  auto const outcome = run_job(world, [&](Job& job) {
    SmallModel const small;
    Engine<float> engine{job, small.model, small_config(stage)};
    train(engine, small, 1);
    result.errors[static_cast<std::size_t>(job.rank())] = thrown_by([&] { meanwhile(engine, job.rank()); });
    train(engine, small, 2);
    engine.save_weights(folder / "trained");
  });
  REQUIRE(messages_of(outcome) == "");
  result.trained = read_file(folder / "trained");
  return result;
}

void save_initial(std::filesystem::path const& file) {
  REQUIRE(messages_of(run_job(1, [&](Job& job) {
            SmallModel const small;
            Engine<float>{job, small.model, small_config(0)}.save_weights(file);
          })) == "");
}

/// The error of loading if rank `odd` loads another file than the other ranks.
std::string load_error(int stage, int odd, std::filesystem::path const& odd_file, std::filesystem::path const& file,
                       Folder const& folder, std::string const& undisturbed) {
  auto const result = train_with(
      stage, folder, [&](auto& engine, int rank) { engine.load_weights(odd < 0 || rank == odd ? odd_file : file); });
  CHECK(result.errors == std::vector<std::string>(world, result.errors[0]));
  CHECK((result.trained == undisturbed));
  return result.errors[0];
}

}  // namespace

TEST_CASE("after a failed save training continues, and another file can be saved") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    Folder const folder;
    auto const undisturbed = train_with(stage, folder, [](auto&, int) {});
    auto const result = train_with(stage, folder, [&](auto& engine, int) {
      auto const first = thrown_by([&] { engine.save_weights(folder / "none" / "weights"); });
      engine.save_weights(folder / "elsewhere");
      throw std::runtime_error{first};
    });
    for (auto const& error : result.errors) {
      CHECK_THAT(error, Contains("save_weights() failed and changed nothing: rank 0: ") &&
                            Contains("none/weights: cannot be written: No such file or directory"));
    }
    CHECK((result.trained == undisturbed.trained));
    CHECK(SafetensorsFile::parse(read_file(folder / "elsewhere")).floats("block0.w").size() == 300);
  }
}

TEST_CASE("a file that all ranks or only one cannot load is the same error on all, and changes nothing") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    Folder const folder;
    save_initial(folder / "good");
    auto misfit = SafetensorsFile::parse(read_file(folder / "good"));
    misfit.header["another"] = misfit.header["block1.w"];
    misfit.header.erase("block1.w");
    write_file(folder / "misfit", misfit.bytes());
    auto const trained = train_with(stage, folder, [](auto&, int) {}).trained;
    auto const error = [&](int odd, std::string const& file) {
      return load_error(stage, odd, folder / file, folder / "good", folder, trained);
    };
    auto const missing = fmt::format("{}: cannot be opened: No such file or directory", (folder / "none").string());
    CHECK(error(-1, "none") == "SystemError load_weights() failed and changed nothing: " + missing);
    CHECK(error(1, "none") == "SystemError load_weights() failed and changed nothing: rank 1: " + missing);
    CHECK_THAT(error(2, "misfit"), Contains("ContractError load_weights() failed and changed nothing: rank 2: ") &&
                                       Contains("misfit does not fit the model:\n  \"block1.w\" is missing"));
  }
}

TEST_CASE("a file that shrinks during a load ends the engine on all ranks with one reason") {
  for (int const stage : {0, 3}) {
    INFO("stage " << stage);
    Folder const folder;
    save_initial(folder / "weights");
    std::vector<std::string> errors(world), later(world);
    // All ranks have checked the file once the first numbers have been gathered.
    auto const shrink = [&](comm::Label const& label, std::span<comm::Collective const> collectives) {
      if (label.purpose == "load_weights" && collectives.front().operation == comm::Operation::all_gather) {
        std::filesystem::resize_file(folder / "weights", 1000);
      }
    };
    auto const wrap = [&](auto inner) { return std::make_unique<HookedCommunicator>(std::move(inner), shrink); };
    static_cast<void>(run_job(
        world,
        [&](Job& job) {
          SmallModel const small;
          Engine<float> engine{job, small.model, small_config(stage)};
          auto const rank = static_cast<std::size_t>(job.rank());
          errors[rank] = thrown_by([&] { engine.load_weights(folder / "weights"); });
          later[rank] = thrown_by([&] { engine.save_weights(folder / "later"); });
        },
        wrap));
    CHECK(errors == std::vector<std::string>(world, errors[0]));
    CHECK_THAT(errors[0], Contains("SystemError load_weights() failed after it had changed weights: ") &&
                              Contains("weights: has become shorter"));
    for (auto const& each : later) {
      CHECK_THAT(each, Contains("ContractError") && Contains("the engine failed before: ") &&
                           Contains("load_weights() failed after it had changed weights"));
    }
    CHECK(folder.contents() == "weights ");
  }
}

TEST_CASE("weights that are not finite are loaded, with one warning that names the parameter") {
  Folder const folder;
  save_initial(folder / "good");
  auto file = SafetensorsFile::parse(read_file(folder / "good"));
  float const odd = std::numeric_limits<float>::infinity();
  auto const begin = file.header.at("block1.w").at("data_offsets").at(0).get<std::size_t>();
  std::memcpy(file.data.data() + begin + 7 * sizeof odd, &odd, sizeof odd);
  write_file(folder / "odd", file.bytes());
  auto const before = spdlog::default_logger();
  for (int const stage : {0, 3}) {
    std::ostringstream log;
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    auto const outcome = run_job(2, [&](Job& job) {
      SmallModel const small;
      Engine<float> engine{job, small.model, small_config(stage)};
      engine.load_weights(folder / "good");
      engine.load_weights(folder / "odd");
      train(engine, small, 1);
    });
    spdlog::set_default_logger(before);
    CHECK(messages_of(outcome) == "");
    auto const text = log.str();
    CHECK_THAT(text, Contains("odd): \"block1.w\" holds inf at element 7: training continues with these values"));
    CHECK(text.find("load_weights") == text.rfind("load_weights"));  // logged once
  }
}

}  // namespace zeroth::testing
