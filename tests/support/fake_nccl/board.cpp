// SPDX-License-Identifier: Apache-2.0
#include "support/fake_nccl/board.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace zeroth::testing::fake_nccl {
namespace {

class MemoryBoard final : public Board {
 public:
  void post(std::string const& name, Bytes bytes) override {
    auto shared = std::make_shared<Bytes const>(std::move(bytes));
    change([&] { posts_[name] = std::move(shared); });
  }
  [[nodiscard]] std::shared_ptr<Bytes const> find(std::string const& name) override {
    std::lock_guard const lock{mutex_};
    auto const found = posts_.find(name);
    return found == posts_.end() ? nullptr : found->second;
  }
  void remove(std::string const& name) override {
    change([&] { posts_.erase(name); });
  }
  void wait_until(std::function<bool()> const& done) override {
    while (true) {
      std::uint64_t seen = 0;
      {
        std::lock_guard const lock{mutex_};
        seen = changes_;
      }
      if (done()) {  // without the lock, since it calls find()
        return;
      }
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return changes_ != seen; });
    }
  }
  void wake() override {
    change([] {});
  }

 private:
  template <class F>
  void change(F const& function) {
    std::lock_guard const lock{mutex_};
    function();
    ++changes_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::map<std::string, std::shared_ptr<Bytes const>> posts_;
};

/// Posts are files. A killed process leaves nothing behind that would block the others, and no partial file.
class FolderBoard final : public Board {
 public:
  explicit FolderBoard(std::filesystem::path folder) : folder_{std::move(folder)} {
    std::filesystem::create_directories(folder_);
  }
  void post(std::string const& name, Bytes bytes) override {
    auto const draft = folder_ / (name + " of " + std::to_string(::getpid()));
    {
      std::ofstream out{draft, std::ios::binary};
      out.write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (!out.flush()) {
        throw std::runtime_error{"cannot write " + draft.string()};
      }
    }
    std::filesystem::rename(draft, folder_ / name);
  }
  [[nodiscard]] std::shared_ptr<Bytes const> find(std::string const& name) override {
    std::ifstream in{folder_ / name, std::ios::binary | std::ios::ate};
    if (!in) {
      return nullptr;
    }
    auto bytes = std::make_shared<Bytes>(static_cast<std::size_t>(in.tellg()));
    in.seekg(0).read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
    return bytes;
  }
  void remove(std::string const& name) override { std::filesystem::remove(folder_ / name); }
  void wait_until(std::function<bool()> const& done) override {
    while (!done()) {
      std::this_thread::sleep_for(std::chrono::microseconds{200});
    }
  }
  void wake() override {}

 private:
  std::filesystem::path folder_;
};

}  // namespace

std::unique_ptr<Board> make_board() { return std::make_unique<MemoryBoard>(); }
std::unique_ptr<Board> make_board(std::filesystem::path const& folder) { return std::make_unique<FolderBoard>(folder); }

}  // namespace zeroth::testing::fake_nccl
