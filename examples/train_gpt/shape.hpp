/// The model's extents.
#pragma once
#include <cstdint>

namespace gpt {

struct Shape {
  std::int64_t layers = 6, heads = 6, channels = 384, context = 256;
  std::int64_t vocabulary = 256;  ///< At least 256: a byte is a token.
  friend bool operator==(Shape const&, Shape const&) = default;
};

}  // namespace gpt
