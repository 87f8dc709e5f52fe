// SPDX-License-Identifier: Apache-2.0
/// The machine of the kernels' cases: the emulator on the host, or a GPU. The cases are the same.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"

namespace zeroth::testing {

class Machine {
 public:
  Machine() = default;
  Machine(Machine const&) = delete;
  Machine& operator=(Machine const&) = delete;
  virtual ~Machine() = default;
  /// Number of ways to run the same kernels; every case runs in each of them.
  [[nodiscard]] virtual int ways() const = 0;
  virtual void choose(int way) = 0;
  /// Aligned to 256 bytes.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  virtual void upload(std::byte* to, void const* from, std::size_t bytes) = 0;
  /// Once everything that was launched is done.
  virtual void download(void* to, std::byte const* from, std::size_t bytes) = 0;
  [[nodiscard]] virtual cudaStream_t stream() = 0;
  /// Bytes after every array that a kernel must not change. 0 if a sanitizer checks that instead.
  [[nodiscard]] virtual std::size_t guard_bytes() const = 0;
};

/// The one of this program.
[[nodiscard]] Machine& machine();

/// Call at the start of a case: the rest of the case is repeated for each way.
inline void every_way() { machine().choose(GENERATE(range(0, machine().ways()))); }

/// A host array's copy on the machine, `shift` elements after an aligned address.
template <class T>
class OnMachine {
 public:
  explicit OnMachine(std::vector<T> const& values, std::int64_t shift = 0)
      : count_{values.size()},
        shift_{static_cast<std::size_t>(shift) * sizeof(T)},
        before_(shift_ + count_ * sizeof(T) + machine().guard_bytes(), std::byte{0xa5}),
        memory_{machine().allocate(before_.size())} {
    if (count_ > 0) {
      std::memcpy(before_.data() + shift_, values.data(), count_ * sizeof(T));
    }
    machine().upload(memory_, before_.data(), before_.size());
  }
  OnMachine(OnMachine const&) = delete;
  OnMachine& operator=(OnMachine const&) = delete;
  ~OnMachine() { machine().release(memory_); }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_ + shift_); }
  /// The address of an array that begins `elements` elements earlier, so that these elements have large indices.
  [[nodiscard]] T* data_before(std::int64_t elements) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data()) -
                                static_cast<std::uintptr_t>(elements) * sizeof(T));
  }

  /// The current values. Memory around them must be unchanged.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<std::byte> now(before_.size());
    machine().download(now.data(), memory_, now.size());
    auto const begin = static_cast<std::ptrdiff_t>(shift_);
    auto const end = begin + static_cast<std::ptrdiff_t>(count_ * sizeof(T));
    bool const kept = std::equal(now.begin(), now.begin() + begin, before_.begin()) &&
                      std::equal(now.begin() + end, now.end(), before_.begin() + end);
    REQUIRE(kept);
    std::vector<T> result(count_);
    if (count_ > 0) {
      std::memcpy(result.data(), now.data() + shift_, count_ * sizeof(T));
    }
    return result;
  }

 private:
  std::size_t count_, shift_;
  std::vector<std::byte> before_;
  std::byte* memory_;
};

/// NaN payloads included.
template <class T>
[[nodiscard]] bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace zeroth::testing
