// SPDX-License-Identifier: Apache-2.0
/// The processes of one job, as children of a test.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/child.hpp"

namespace zeroth::testing {

/// Numbered in the order in which they were started, in a folder of their own.
class Children {
 public:
  Child& start(std::vector<std::string> command, std::map<std::string, std::string> environment = {}) {
    children_.push_back(
        std::make_unique<Child>(Child::Options{std::move(command), folder_.path(), std::move(environment)}));
    return *children_.back();
  }
  [[nodiscard]] Child& operator[](std::size_t index) { return *children_[index]; }
  [[nodiscard]] std::size_t count() const noexcept { return children_.size(); }
  [[nodiscard]] std::filesystem::path const& folder() const noexcept { return folder_.path(); }

  /// Checks that the child ends by itself, with `status`, and has printed `words`.
  void check_said(std::size_t index, std::string const& words, int status) {
    CAPTURE(index);
    auto const ending = children_[index]->wait();
    CHECK(ending.in_time);
    CHECK(ending.signal == 0);
    CHECK(ending.status == status);
    CHECK_THAT(children_[index]->output(), Catch::Contains(words));
  }

 private:
  Folder folder_;
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace zeroth::testing
