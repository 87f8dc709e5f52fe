// SPDX-License-Identifier: Apache-2.0
/// A queue that allocates only when it grows beyond its previous maximum.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace zeroth::comm {

template <class T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] T& front() noexcept { return ring_[first_]; }
  void push(T value) {
    if (count_ == ring_.size()) {
      std::vector<T> longer(ring_.empty() ? 8 : 2 * ring_.size());
      for (std::size_t i = 0; i < count_; ++i) {
        longer[i] = std::move(ring_[(first_ + i) % ring_.size()]);
      }
      ring_.swap(longer);
      first_ = 0;
    }
    ring_[(first_ + count_++) % ring_.size()] = std::move(value);
  }
  void pop() noexcept {
    first_ = (first_ + 1) % ring_.size();
    --count_;
  }
  void clear() noexcept { first_ = count_ = 0; }

 private:
  std::vector<T> ring_;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace zeroth::comm
