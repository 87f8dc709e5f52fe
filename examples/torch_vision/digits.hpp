// SPDX-License-Identifier: Apache-2.0
/// Handwritten digits in text: one line each, with 64 pixels from 0 to 16 and the digit, separated by commas.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <zeroth/core/error.hpp>

namespace torch_vision {

struct Digits {
  torch::Tensor images;  ///< [count, 1, 8, 8], 0 to 1
  torch::Tensor labels;  ///< [count]

  [[nodiscard]] std::int64_t count() const { return labels.size(0); }
  /// Throws SystemError if the file cannot be read, or a line does not have this form.
  static Digits read(std::filesystem::path const& file) {
    constexpr std::size_t pixels = 64;
    std::ifstream in{file};
    std::vector<float> images;
    std::vector<std::int64_t> labels;
    for (std::string line; std::getline(in, line);) {
      std::istringstream values{line};
      float value = 0;
      std::vector<float> row;
      for (char comma = ','; comma == ',' && values >> value;) {
        row.push_back(value);
        comma = '\0';
        values >> comma;
      }
      if (row.size() != pixels + 1) {
        throw zeroth::SystemError{file.string() + ", line " + std::to_string(labels.size() + 1) + ": " +
                                  std::to_string(row.size()) + " numbers; a line has 64 pixels and a digit"};
      }
      labels.push_back(static_cast<std::int64_t>(row.back()));
      images.insert(images.end(), row.begin(), row.end() - 1);
    }
    if (labels.empty()) {
      throw zeroth::SystemError{file.string() + ": no lines to read"};
    }
    auto const count = static_cast<std::int64_t>(labels.size());
    return {torch::tensor(images).view({count, 1, 8, 8}) / 16, torch::tensor(labels)};
  }
};

}  // namespace torch_vision
