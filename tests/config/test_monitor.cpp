// SPDX-License-Identifier: Apache-2.0
/// The files that monitors write.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "monitor/wire.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/monitor/monitor.hpp"

namespace zeroth {
namespace {

std::string text_of(std::filesystem::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

/// The messages of an event file, with checked lengths and checksums.
std::vector<std::string> messages_of(std::string const& file) {
  auto const word = [&](std::size_t at, auto value) {
    REQUIRE(at + sizeof value <= file.size());
    std::memcpy(&value, file.data() + at, sizeof value);
    return value;
  };
  auto const masked = [](std::uint32_t crc) { return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U; };
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < file.size();) {
    auto const length = word(at, std::uint64_t{});
    CHECK(word(at + 8, std::uint32_t{}) == masked(monitor::crc32c(file.substr(at, 8))));
    messages.push_back(file.substr(at + 12, length));
    CHECK(word(at + 12 + length, std::uint32_t{}) == masked(monitor::crc32c(messages.back())));
    at += 16 + length;
  }
  return messages;
}

TEST_CASE("Checksums have the published values") {
  CHECK(monitor::crc32c("123456789") == 0xe3069283U);
  CHECK(monitor::crc32c("") == 0);
  CHECK(monitor::crc32c(std::string(32, '\0')) == 0x8a9136aaU);  // RFC 3720, B.4
}

TEST_CASE("An event file begins with its version and has a message for each step") {
  testing::Folder const folder;
  MonitorSettings const settings{true, folder.path().string(), "run"};
  {
    auto const monitor = tensorboard_monitor(settings);
    std::vector<MonitorEvent> const events{{"Train/Samples/lr", 0.5, 300}, {"loss", -1.25, 300}};
    monitor->write(events);
    monitor->write({});
    std::filesystem::directory_iterator const files{folder / "run"};
    CHECK(files->path().filename().string().starts_with("events.out.tfevents."));
    auto const messages = messages_of(text_of(files->path()));  // readable during the run
    REQUIRE(messages.size() == 2);
    CHECK(
        messages[0].ends_with("\x1a\x0d"
                              "brain.Event:2"));
    // step 300 as a varint; then 2 values, each with its tag and four bytes.
    std::string const summary =
        std::string{
            "\x2a\x26"
            "\x0a\x17\x0a\x10"
            "Train/Samples/lr\x15"} +
        std::string{"\0\0\0\x3f", 4} +
        "\x0a\x0b\x0a\x04"
        "loss\x15" +
        std::string{"\0\0\xa0\xbf", 4};
    CHECK(messages[1].substr(9) == "\x10\xac\x02" + summary);
  }
  auto const second = tensorboard_monitor(settings);
  CHECK(std::distance(std::filesystem::directory_iterator{folder / "run"}, {}) == 2);  // a separate file for each run
}

TEST_CASE("The CSV monitor has a file for each name, and a resumed run appends to it") {
  testing::Folder const folder;
  MonitorSettings const settings{true, folder.path().string(), "run"};
  for (std::int64_t const samples : {8, 16}) {
    auto const monitor = csv_monitor(settings);
    monitor->write(std::vector<MonitorEvent>{{"Train/Samples/lr", 0.5, samples}, {"../a, b", 1, samples}});
  }
  CHECK(text_of(folder / "run/Train_Samples_lr.csv") == "step,lr\n8,0.5\n16,0.5\n");
  CHECK(text_of(folder / "run/.._a,_b.csv") == "step,\"a, b\"\n8,1\n16,1\n");
}

TEST_CASE("The error about a monitor's impossible folder names it") {
  testing::Folder const folder;
  std::ofstream{folder / "file"} << "x";
  MonitorSettings const settings{true, (folder / "file").string(), "run"};
  CHECK_THROWS_WITH(csv_monitor(settings), Catch::Contains((folder / "file/run").string()));
  CHECK_THROWS_AS(tensorboard_monitor(settings), SystemError);
}

}  // namespace
}  // namespace zeroth
