// SPDX-License-Identifier: Apache-2.0
/// `zeroth checkpoint remove` and `gc`: the checkpoints that are removed and kept, and rejected requests.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <string>

#include "checkpoint/commit.hpp"
#include "checkpoint_support.hpp"
#include "zeroth/checkpoint/file_reader.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
using Json = nlohmann::json;

/// Checkpoints of steps 2, 4, 6 and 8, and leftovers of an aborted job.
void save_four(Folder const& folder) {
  for (int i = 0; i < 4; ++i) {
    save_run(folder / "saved", {.from = i == 0 ? fs::path{} : folder / "saved"});
  }
  fs::create_directory(folder / "saved/step_00000010.00ff.partial");
  fs::create_directory(folder / "saved/step_00000001.deleting");
}

std::set<std::string> names_in(fs::path const& folder) {
  std::set<std::string> names;
  for (auto const& each : fs::directory_iterator{folder}) {
    names.insert(each.path().filename().string());
  }
  return names;
}

/// `names` and the files that are always there.
std::set<std::string> with_files(std::set<std::string> names) {
  names.insert({".lock", "latest"});
  return names;
}

/// Sets the time at which a checkpoint was saved.
void date(fs::path const& checkpoint, fs::file_time_type::duration ago) {
  fs::last_write_time(checkpoint / "checkpoint.json", fs::file_time_type::clock::now() - ago);
}

}  // namespace

TEST_CASE("gc removes what aborted jobs left, and with --keep checkpoints that are not kept") {
  Folder const folder;
  save_four(folder);
  auto const all = names_in(folder / "saved");
  auto const gc = [&](std::string const& words) { return zeroth_tool("checkpoint gc saved " + words, folder.path()); };
  auto const planned = gc("--keep 2 --dry-run");
  CHECK(planned.status == 0);
  CHECK_THAT(planned.output,
             Contains("would remove ") && Contains(" in 4 folders\n  saved/step_00000001.deleting: 0 B\n"
                                                   "  saved/step_00000010.00ff.partial: 0 B\n"
                                                   "  saved/step_00000004: "));
  CHECK(names_in(folder / "saved") == all);
  auto const leftovers = gc("");
  CHECK(leftovers.output ==
        "removed 0 B in 2 folders\n  saved/step_00000001.deleting: 0 B\n"
        "  saved/step_00000010.00ff.partial: 0 B\n");
  CHECK(names_in(folder / "saved") == with_files({"step_00000002", "step_00000004", "step_00000006", "step_00000008"}));
  auto const removed = Json::parse(gc("--keep 1 --keep-every 4 --json").output);
  CHECK(removed["removed"].size() == 2);
  CHECK(removed["removed"][0]["path"] == "saved/step_00000006");
  CHECK(removed["removed"][0]["bytes"] > 10'000);
  CHECK(removed["in_use"].empty());
  CHECK(names_in(folder / "saved") == with_files({"step_00000004", "step_00000008"}));
  CHECK(gc("--keep 5").output == "nothing to remove\n");
}

TEST_CASE("gc does not count checkpoints that are not whole, and leaves those of later steps than latest") {
  Folder const folder;
  save_four(folder);
  fs::remove(folder / "saved/step_00000006/place_00001.safetensors");
  write_file(folder / "saved/latest", "step_00000006\n");
  auto const result = zeroth_tool("checkpoint gc saved --keep 1", folder.path());
  CHECK(result.status == 0);
  CHECK(names_in(folder / "saved") == with_files({"step_00000004", "step_00000006", "step_00000008"}));
}

TEST_CASE("gc with --older-than keeps younger checkpoints, and those without a time") {
  Folder const folder;
  save_four(folder);
  date(folder / "saved/step_00000002", std::chrono::hours{11});
  date(folder / "saved/step_00000004", std::chrono::hours{13});
  fs::remove(folder / "saved/step_00000006/checkpoint.json");
  auto const result = zeroth_tool("checkpoint gc saved --keep 1 --older-than 0.5d", folder.path());
  CHECK(result.status == 0);
  CHECK(names_in(folder / "saved") == with_files({"step_00000002", "step_00000006", "step_00000008"}));
}

TEST_CASE("checkpoints that are being read stay, and folders in which a job saves are refused") {
  Folder const folder;
  save_four(folder);
  {
    checkpoint::Reader const reader{folder / "saved/step_00000002"};
    auto const kept = zeroth_tool("checkpoint gc saved --keep 3", folder.path());
    CHECK(kept.status == 0);
    CHECK_THAT(kept.output, Contains("saved/step_00000002 is being read, and stays\n"));
    auto const result = zeroth_tool("checkpoint remove saved/step_00000002 saved/step_00000004/", folder.path());
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains("in 1 folder\n  saved/step_00000004: ") && Contains("is being read"));
  }
  checkpoint::FolderLock const lock{folder / "saved", "a job that trains"};
  auto const refused = zeroth_tool("checkpoint gc saved --keep 1", folder.path());
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("another job is saving here") && Contains("a job that trains"));
  CHECK(zeroth_tool("checkpoint gc saved --keep 1 --dry-run", folder.path()).status == 0);
  CHECK(names_in(folder / "saved") == with_files({"step_00000002", "step_00000006", "step_00000008"}));
}

TEST_CASE("remove refuses what latest names and what is no checkpoint, and then removes nothing") {
  Folder const folder;
  save_four(folder);
  auto const all = names_in(folder / "saved");
  auto const refused = [&](std::string const& words, std::string const& why) {
    auto const result = zeroth_tool("checkpoint " + words, folder.path());
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(why));
    CHECK(names_in(folder / "saved") == all);
  };
  refused(
      "remove saved/step_00000002 saved/step_00000008",
      "checkpoint saved/step_00000008: is the one that saved/latest names, from which jobs resume; allowed: others");
  refused("remove saved/step_00000002 saved",
          "checkpoint saved: is not named like a checkpoint; allowed: paths that end in a name such as step_00001000");
  refused("remove saved/step_00000002 saved/step_00000003", "checkpoint saved/step_00000003: is not a folder");
  fs::create_directory_symlink(folder / "saved/step_00000002", folder / "step_00000007");
  refused("remove saved/step_00000002 step_00000007", "checkpoint step_00000007: is not a folder");
  refused("gc absent", "absent");
  auto const usage = zeroth_tool("checkpoint gc saved --older-than 7", folder.path());
  CHECK(usage.status > 1);
  CHECK_THAT(usage.output, Contains("7: allowed: a number with s, min, h or d, such as 12h, up to 10^9 s"));
  CHECK(zeroth_tool("checkpoint gc saved --older-than 7d", folder.path()).status > 1);  // without --keep
  CHECK(names_in(folder / "saved") == all);
}

}  // namespace zeroth::testing
