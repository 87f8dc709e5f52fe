// SPDX-License-Identifier: Apache-2.0
/// `zeroth config --write`: its file is the first stage that fits, and `zeroth plan` accepts it.
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "config_writer.hpp"
#include "plan_command.hpp"
#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::tools {
namespace {

using Catch::Contains;

struct Written {
  int status;
  std::string asked, told, file;  ///< `file` is its text; empty: there is none.
};

/// `answers`: a line for each question.
Written write(testing::Folder const& folder, std::string const& answers, bool asks_again = false) {
  auto const path = folder / "stage.json";
  std::filesystem::remove(path);
  std::istringstream input{answers};
  std::ostringstream questions;
  Page page{Paper{}};
  write_config(path, input, questions, asks_again, page);
  std::ifstream file{path};
  return {page.status, questions.str(), page.all(), {std::istreambuf_iterator<char>{file}, {}}};
}

}  // namespace

TEST_CASE("a written stage file has the first stage that fits") {
  testing::Folder const folder;
  // 16 bytes per parameter at stage 0 with one micro-step, 4 + 12 / 64 at 1, 2 + 14 / 64 at 2, 16 / 64 at 3
  struct Case {
    char const* gib;
    int stage;
  };
  for (auto const& [gib, stage] : {Case{"200", 0}, {"48", 1}, {"30", 2}, {"8", 3}}) {
    INFO(gib);
    auto const written = write(folder, std::string{"7.5e9\n64\n64\n"} + gib + "\nbf16\n64\nnone\n");
    REQUIRE(written.status == 0);
    auto const config = Config::from_json(written.file);
    auto const settings = config.settings(64, 1000);
    CHECK(settings.stage == stage);
    CHECK(settings.precision.compute == Dtype::bf16);
    CHECK(settings.batch.train == 64);
    auto const needed = plan_of({equal_units(7'500'000'000), config, 64, {}}).bytes.total();
    CHECK(static_cast<double>(needed) <= 0.75 * std::stod(gib) * 0x1p30);
    CHECK_THAT(written.told, Contains("stage.json written: stage " + std::to_string(stage)));
    CHECK_THAT(written.file, Contains("// For 7.5e9 in 64 ranks of"));
  }
}

TEST_CASE("a written stage file keeps gathers within machines, and what does not fit on a disk") {
  testing::Folder const folder;
  auto const machines = write(folder, "7.5e9\n64\n8\n10\nbf16\n64\nnone\n");
  CHECK_THAT(machines.file, Contains("\"zero_hpz_partition_size\": 8"));
  auto const disk = write(folder, "7.5e9\n4\n4\n20\nfp16\n8\n/mnt/nvme\n");
  REQUIRE(disk.status == 0);
  auto const settings = Config::from_json(disk.file).settings(4, 1000);
  CHECK(settings.stage == 3);
  CHECK(settings.offload.optimizer == OffloadDevice::nvme);
  CHECK(settings.precision.compute == Dtype::fp16);
  CHECK_THAT(disk.file, !Contains("offload_param"));
  auto const both = write(folder, "30e9\n4\n4\n60\nbf16\n8\n/mnt/nvme\n");
  CHECK_THAT(both.file, Contains("offload_param"));
}

TEST_CASE("where nothing fits nothing is written, and a file is never replaced") {
  testing::Folder const folder;
  auto const written = write(folder, "7.5e9\n4\n4\n16\nbf16\n8\nnone\n");
  CHECK(written.status == does_not_fit);
  CHECK(written.file.empty());
  CHECK_THAT(written.told, Contains("nothing written: a rank would need at least") && Contains("name a disk"));
  std::ofstream{folder / "kept.json"} << "mine";
  std::istringstream input;
  std::ostringstream questions;
  Page page{Paper{}};
  CHECK_THROWS_WITH(write_config(folder / "kept.json", input, questions, false, page), Contains("kept.json exists"));
  CHECK(questions.str().empty());
}

TEST_CASE("an empty line and the end of the answers are defaults; wrong answers are named or asked for again") {
  testing::Folder const folder;
  auto const by_default = write(folder, "");
  CHECK(by_default.status == 0);
  CHECK_THAT(by_default.file, Contains("For 124M in 2 ranks of 16 GiB"));
  CHECK(write(folder, "\n\n\n\n\n\n\n").file == by_default.file);
  CHECK_THROWS_WITH(write(folder, "99Z\n"), Contains("\"99Z\"; allowed: a preset, such as 7.5B"));
  CHECK_THROWS_WITH(write(folder, "124M\n0\n"), Contains("Ranks, on all machines: \"0\"; allowed: 1 to"));
  CHECK_THROWS_WITH(write(folder, "124M\n4\n3\n"), Contains("\"3\"; allowed: a divisor of 4"));
  CHECK_THROWS_WITH(write(folder, "124M\n4\n4\n-1\n"), Contains("\"-1\"; allowed: a number above 0"));
  CHECK_THROWS_WITH(write(folder, "124M\n4\n4\n1\nint8\n"), Contains("\"int8\"; allowed: fp32, bf16 or fp16"));
  CHECK_THROWS_WITH(write(folder, "124M\n4\n4\n1\nbf16\n6\n"), Contains("\"6\"; allowed: a multiple of 4"));
  CHECK_THROWS_WITH(write(folder, "124M\n4\n4\n1\nbf16\n8\n\"\n"), Contains("without control characters"));
  auto const again = write(folder, "124M\nmany\n4\n", true);
  CHECK_THAT(again.asked, Contains("\"many\"; allowed: 1 to 1048576\nRanks, on all machines [2]: "));
  CHECK_THAT(again.file, Contains("For 124M in 4 ranks"));
}

}  // namespace zeroth::tools
