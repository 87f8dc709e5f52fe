// SPDX-License-Identifier: Apache-2.0
/// Reads and writes safetensors files by hand, independent of the library's reader and writer.
#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace zeroth::testing {

inline std::string read_file(std::filesystem::path const& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    throw std::runtime_error{"cannot read " + path.string()};
  }
  return {std::istreambuf_iterator<char>{file}, {}};
}

inline void write_file(std::filesystem::path const& path, std::string const& bytes) {
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  file << bytes;
  if (!file.flush()) {
    throw std::runtime_error{"cannot write " + path.string()};
  }
}

struct SafetensorsFile {
  nlohmann::json header;
  std::string data;

  static SafetensorsFile parse(std::string const& bytes) {
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
    return {nlohmann::json::parse(bytes.substr(8, header_bytes)), bytes.substr(8 + header_bytes)};
  }
  [[nodiscard]] std::string bytes() const {
    auto const text = header.dump();
    std::uint64_t const header_bytes = text.size();
    std::string all(8, '\0');
    std::memcpy(all.data(), &header_bytes, sizeof header_bytes);
    return all + text + data;
  }
  /// Appends a tensor of `values` in their memory layout.
  template <class T>
  void add(std::string const& name, std::string const& dtype, std::vector<std::int64_t> const& shape,
           std::vector<T> const& values) {
    auto const begin = data.size();
    data.resize(begin + values.size() * sizeof(T));
    std::memcpy(data.data() + begin, values.data(), values.size() * sizeof(T));
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
  [[nodiscard]] std::vector<float> floats(std::string const& name) const {
    auto const& offsets = header.at(name).at("data_offsets");
    auto const begin = offsets.at(0).get<std::size_t>();
    std::vector<float> values((offsets.at(1).get<std::size_t>() - begin) / sizeof(float));
    std::memcpy(values.data(), data.data() + begin, values.size() * sizeof(float));
    return values;
  }
};

}  // namespace zeroth::testing
