// SPDX-License-Identifier: Apache-2.0
/// Where the ranks of a communicator leave bytes for each other.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace zeroth::testing::fake_nccl {

using Bytes = std::vector<std::byte>;

/// Any thread may call anything.
class Board {
 public:
  Board() = default;
  Board(Board const&) = delete;
  Board& operator=(Board const&) = delete;
  virtual ~Board() = default;
  virtual void post(std::string const& name, Bytes bytes) = 0;
  /// What was posted under `name`; null if nothing was, or it was removed.
  [[nodiscard]] virtual std::shared_ptr<Bytes const> find(std::string const& name) = 0;
  virtual void remove(std::string const& name) = 0;
  /// Waits until `done` says so, which is asked again when something has changed.
  virtual void wait_until(std::function<bool()> const& done) = 0;
  /// What `done` looks at beside the board has changed, in this process.
  virtual void wake() = 0;
};

/// For ranks that are threads of this process.
[[nodiscard]] std::unique_ptr<Board> make_board();
/// For ranks that are processes and give the same folder, which is made if it is not there.
[[nodiscard]] std::unique_ptr<Board> make_board(std::filesystem::path const& folder);

}  // namespace zeroth::testing::fake_nccl
