// SPDX-License-Identifier: Apache-2.0
/// A board where the ranks of a communicator leave bytes for each other.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace zeroth::testing::fake_nccl {

using Bytes = std::vector<std::byte>;

/// Any thread may call any function.
class Board {
 public:
  Board() = default;
  Board(Board const&) = delete;
  Board& operator=(Board const&) = delete;
  virtual ~Board() = default;
  virtual void post(std::string const& name, Bytes bytes) = 0;
  /// The bytes posted under `name`; null if there are none, or they were removed.
  [[nodiscard]] virtual std::shared_ptr<Bytes const> find(std::string const& name) = 0;
  virtual void remove(std::string const& name) = 0;
  /// Waits until `done` returns true; it is called again whenever something has changed.
  virtual void wait_until(std::function<bool()> const& done) = 0;
  /// Reports, in this process, a change of something other than the board that `done` depends on.
  virtual void wake() = 0;
};

/// For ranks that are threads of this process.
[[nodiscard]] std::unique_ptr<Board> make_board();
/// For ranks that are processes. All give the same folder, which is created if needed.
[[nodiscard]] std::unique_ptr<Board> make_board(std::filesystem::path const& folder);

}  // namespace zeroth::testing::fake_nccl
