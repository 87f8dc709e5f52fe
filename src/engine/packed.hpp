// SPDX-License-Identifier: Apache-2.0
/// Values one after another in a text, for messages between ranks of one program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace zeroth::engine {

class Packer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> Packer& put(T const& value) {
    text_.append(reinterpret_cast<char const*>(&value), sizeof value);
    return *this;
  }
  Packer& put_text(std::string_view text) {
    put(static_cast<std::int64_t>(text.size()));
    text_.append(text);
    return *this;
  }
  [[nodiscard]] std::string const& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Takes values in the order in which they were put.
class Unpacker {
 public:
  explicit Unpacker(std::string_view text) noexcept : left_{text} {}
  template <class T>
    requires std::is_trivially_copyable_v<T> T take() {
      T value;
      std::memcpy(&value, left_.data(), sizeof value);
      left_.remove_prefix(sizeof value);
      return value;
    }
  std::string take_text() {
    auto const size = static_cast<std::size_t>(take<std::int64_t>());
    std::string text{left_.substr(0, size)};
    left_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view left_;
};

}  // namespace zeroth::engine
