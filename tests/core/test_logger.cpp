// SPDX-License-Identifier: Apache-2.0
#include "core/logger.hpp"

#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "support/folder.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Captures everything written to `descriptor` during its lifetime.
class Caught {
 public:
  explicit Caught(int descriptor) : descriptor_{descriptor} {
    int const file = ::open((folder_ / "caught").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    std::fflush(nullptr);
    ::dup2(file, descriptor_);
    ::close(file);
  }
  Caught(Caught const&) = delete;
  Caught& operator=(Caught const&) = delete;
  ~Caught() { ::close(kept_); }
  /// And no more.
  [[nodiscard]] std::string end() {
    std::fflush(nullptr);
    ::dup2(kept_, descriptor_);
    std::ifstream file{folder_ / "caught"};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

 private:
  Folder folder_;
  int descriptor_;
  int kept_ = ::dup(descriptor_);
};

TEST_CASE("warnings go to standard error, at the level that the program asks for") {
  Caught output{STDOUT_FILENO};
  Caught error{STDERR_FILENO};
  logger().warn("unit {} is odd", 3);
  auto const level = spdlog::get_level();
  spdlog::set_level(spdlog::level::err);
  logger().warn("unit {} is even", 4);
  spdlog::set_level(level);
  auto const on_error = error.end();
  CHECK(output.end() == "");
  CHECK_THAT(on_error, Contains("[zeroth]") && Contains("unit 3 is odd\n") && !Contains("even"));
}

TEST_CASE("warnings go to the program's logger if it sets one") {
  std::ostringstream lines;
  auto const before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("mine", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  Caught error{STDERR_FILENO};
  logger().error("unit {} is odd", 3);
  spdlog::set_default_logger(before);
  CHECK(error.end() == "");
  CHECK_THAT(lines.str(), Contains("[mine]") && Contains("unit 3 is odd"));
}

}  // namespace
}  // namespace zeroth::testing
