// SPDX-License-Identifier: Apache-2.0
/// Safetensors files, of which only the header is read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <vector>

#include "source_support.hpp"
#include "support/catch.hpp"

namespace zeroth::tools {
namespace {

/// The beginning of a file: the length of `header`, then `header`.
std::string file_of(std::string const& header) {
  auto const length = std::bit_cast<std::array<char, 8>>(std::uint64_t{header.size()});
  return std::string{length.data(), length.size()} + header;
}

/// Consecutive tensors.
class Header {
 public:
  Header& add(std::string const& name, std::vector<std::int64_t> const& shape, char const* dtype = "F32",
              std::int64_t bytes_of_element = 4) {
    auto bytes = bytes_of_element;
    for (auto const extent : shape) {
      bytes *= extent;
    }
    members_ += fmt::format(R"({}"{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})",
                            members_.empty() ? "" : ", ", name, dtype, fmt::join(shape, ", "), end_, end_ + bytes);
    end_ += bytes;
    return *this;
  }
  [[nodiscard]] std::string text() const { return "{" + members_ + R"(, "__metadata__": {"format": "pt"}})"; }
  [[nodiscard]] std::int64_t data_bytes() const noexcept { return end_; }

 private:
  std::string members_;
  std::int64_t end_ = 0;
};

/// GPT-2 with two layers, in another order than the model's, and with the mask of its published file.
Header gpt_header() {
  Header header;
  header.add("ln_f.weight", {8}).add("h.10.mlp.weight", {8, 32}).add("h.2.mlp.weight", {8, 32});
  header.add("h.2.mlp.bias", {32}, "BF16", 2).add("h.2.attn.bias", {1, 1, 16, 16}).add("position_ids", {16}, "I64", 8);
  header.add("wte.weight", {100, 8}, "F16", 2);
  return header;
}
std::string gpt() { return gpt_header().text(); }

TEST_CASE("Units follow the layer index in names, embeddings first, tensors without an index last") {
  Files const files;
  auto const source = read(files.write("model.safetensors", file_of(gpt())));
  CHECK(unit_names(source) == std::vector<std::string>{"embedding", "h.2", "h.10", "head"});
  CHECK(count_of(source) == 800 + 256 + 32 + 256 + 8);
  CHECK(count_of_unit(source, 1) == 256 + 32);
  CHECK(source.facts[0].matmul_count == 0);
  CHECK(source.facts[1].matmul_count == 256);
  CHECK_FALSE(source.context);
  CHECK(source.about == "5 tensors, 2 constants left out");
}

TEST_CASE("A header suffices, after its length or as JSON, whatever the file's name") {
  Files const files;
  auto const count = count_of(read(files.write("model.safetensors", file_of(gpt()))));
  CHECK(count_of(read(files.path())) == count);
  CHECK(count_of(read(files.write("first_bytes", file_of(gpt())))) == count);
  CHECK(count_of(read(files.write("header.json", gpt()))) == count);
}

TEST_CASE("An index combines the files that it names") {
  Files const files;
  files.write("model-00001-of-00002.safetensors", file_of(Header{}.add("layers.0.w", {4, 4}).text()));
  files.write("model-00002-of-00002.safetensors", file_of(Header{}.add("layers.1.w", {4, 4}).text()));
  files.write("model.safetensors.index.json",
              R"({"metadata": {}, "weight_map": {"layers.0.w": "model-00001-of-00002.safetensors",
                                                 "layers.1.w": "model-00002-of-00002.safetensors"}})");
  auto const source = read(files.path());
  CHECK(unit_names(source) == std::vector<std::string>{"layers.0", "layers.1"});
  CHECK(count_of(source) == 32);
  CHECK(refusal_of(files.path() / "model-00001-of-00002.safetensors") ==
        "model-00001-of-00002.safetensors: is one of several files of a model; give its folder, its config.json or its "
        "model.safetensors.index.json");
}

TEST_CASE("Layers of two stacks are different units") {
  Files const files;
  auto const header = Header{}.add("encoder.layers.0.w", {2}).add("decoder.layers.0.w", {3});
  auto const source = read(files.write("model.safetensors", file_of(header.text())));
  CHECK(unit_names(source) == std::vector<std::string>{"decoder.layers.0", "encoder.layers.0"});
}

TEST_CASE("A wrong header is refused") {
  Files const files;
  auto const refusal = [&](std::string const& text) { return refusal_of(files.write("m.safetensors", text)); };
  CHECK(refusal("") ==
        "m.safetensors: is not a safetensors file: it does not begin with the length of a header, of at most 100000000 "
        "bytes");
  CHECK(contains(refusal("\xff\xff\xff\xff\xff\xff\xff\x7f{"), "does not begin with the length of a header"));
  CHECK(refusal(file_of(gpt()).substr(0, 40)) ==
        fmt::format("m.safetensors: ends within its header of {} bytes", gpt().size()));
  CHECK(contains(refusal(file_of("{\"w\": ")), "m.safetensors: 1 problem\n  line 1, column 7: not valid JSON"));
  CHECK(refusal(file_of("{}")) == "m.safetensors: has no floating-point tensors");
  CHECK(refusal(file_of(R"({"w": 3})")) ==
        "m.safetensors: 1 problem\n  w: 3; allowed: an object with dtype, shape and data_offsets");
  CHECK(contains(refusal(file_of(R"({"w": {"dtype": "F32"}})")), "m.safetensors: 1 problem\n  w.shape: missing; "));
  CHECK(contains(refusal(file_of(R"({"w": {"dtype": 3, "shape": [1]}})")), "w.dtype: 3; allowed: BOOL, "));
  CHECK(refusal(file_of(Header{}.add("w", {2, 0}).text())) ==
        "m.safetensors: w.shape is [2, 0]; allowed: extents of at least 1");
  CHECK(refusal_of(files.write("index.json", R"({"weight_map": {"w": 3}})")) ==
        "index.json: weight_map is {\"w\": 3}; allowed: an object from names of tensors to names of files");
  CHECK(refusal_of(files.write("index.json", R"({"weight_map": {"w": "gone"}})")) ==
        "gone: cannot be opened: No such file or directory");
}

TEST_CASE("A file may end after its header, but not within or after its data") {
  Files const files;
  auto const header = gpt_header();
  auto const whole = file_of(header.text()) + std::string(static_cast<std::size_t>(header.data_bytes()), 'x');
  CHECK(count_of(read(files.write("m.safetensors", whole))) == count_of(read(files.write("cut", file_of(gpt())))));
  CHECK(refusal_of(files.write("m.safetensors", whole + "x")) ==
        fmt::format("m.safetensors: has {} bytes after its header, but its tensors take {}", header.data_bytes() + 1,
                    header.data_bytes()));
}

}  // namespace
}  // namespace zeroth::tools
