// SPDX-License-Identifier: Apache-2.0
/// A hash of large memory, the same in every process and build, nearly as fast as memory is read.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace zeroth {

/// Eight lanes of 64 bits, each of which takes every eighth word, so that a processor can work on all lanes at once. A
/// step is a bijection of the lane, so a single differing word always changes the hash. It detects replicas that
/// diverged by accident, not inputs crafted to collide.
class LaneHash {
 public:
  LaneHash() noexcept {
    std::uint64_t start = factor;
    for (auto& lane : lanes_) {
      lane = start;
      start += factor;
    }
  }
  /// Adds whole blocks of 64 bytes. The last call may end with a partial block, which counts as if padded with zeros.
  void add(std::span<std::byte const> bytes) noexcept {
    count_ += bytes.size();
    auto lanes = lanes_;  // in registers
    for (; bytes.size() >= block_bytes; bytes = bytes.subspan(block_bytes)) {
      add_block(lanes, bytes.data());
    }
    if (!bytes.empty()) {
      std::array<std::byte, block_bytes> padded{};
      std::memcpy(padded.data(), bytes.data(), bytes.size());
      add_block(lanes, padded.data());
    }
    lanes_ = lanes;
  }
  [[nodiscard]] std::uint64_t value() const noexcept {
    auto result = step(factor, count_);
    for (auto const lane : lanes_) {
      result = step(result, lane);
    }
    return step(result, result >> 32U);
  }

 private:
  static constexpr std::size_t block_bytes = 64;
  static constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;  // odd; 2^64 over the golden ratio

  /// Products move bits up, and the rotation moves them down. No single bit of a word stays a single bit, which one bit
  /// of the next word could cancel.
  static constexpr std::uint64_t step(std::uint64_t lane, std::uint64_t word) noexcept {
    return std::rotl(lane ^ word * factor, 29) * factor;
  }
  using Lanes = std::array<std::uint64_t, 8>;
  static void add_block(Lanes& lanes, std::byte const* data) noexcept {
    for (auto& lane : lanes) {
      std::uint64_t word = 0;
      std::memcpy(&word, data, sizeof word);
      lane = step(lane, word);
      data += sizeof word;
    }
  }

  Lanes lanes_;
  std::uint64_t count_ = 0;
};

}  // namespace zeroth
