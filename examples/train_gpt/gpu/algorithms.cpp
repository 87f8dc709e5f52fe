// SPDX-License-Identifier: Apache-2.0
#include "gpu/algorithms.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include <zeroth/core/error.hpp>
#include <zeroth/tool/config/document.hpp>

namespace gpt::gpu {

namespace {

namespace config = zeroth::config;
using Json = nlohmann::ordered_json;
using zeroth::Dtype;

constexpr std::array epilogues{"none", "bias", "bias_gelu", "gelu_slope"};
constexpr std::array<Dtype, 3> dtypes{Dtype::fp32, Dtype::bf16, Dtype::fp16};
constexpr std::int64_t longest = std::numeric_limits<std::int32_t>::max();  // extent
constexpr std::size_t digits_of_word = 16;                                  // hexadecimal

/// The product without members that do not affect the choice.
ProductKind without_addend(ProductKind kind) {
  kind.adds = kind.adds_other = false;
  return kind;
}

std::string to_hex(std::array<std::uint64_t, 8> const& data) {
  std::string text;
  for (auto const word : data) {
    text += fmt::format("{:016x}", word);
  }
  return text;
}

/// nullopt unless the text has 128 hexadecimal digits in lower case.
std::optional<std::array<std::uint64_t, 8>> from_hex(std::string_view text) {
  std::array<std::uint64_t, 8> data{};
  if (text.size() != data.size() * digits_of_word ||
      text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return {};
  }
  for (std::size_t word = 0; word < data.size(); ++word) {
    data.at(word) = std::stoull(std::string{text.substr(word * digits_of_word, digits_of_word)}, nullptr, 16);
  }
  return data;
}

/// Reads the members of one object, and collects the problems with them.
class Reader {
 public:
  Reader(config::Object const& object, std::string path, config::Problems& problems)
      : object_{object}, path_{std::move(path)}, problems_{problems} {}

  std::int64_t integer(char const* key, std::int64_t least, std::int64_t most) {
    auto const* const number = value<config::Number>(key);
    if (number == nullptr || !number->integer || *number->integer < least || *number->integer > most) {
      refuse(key, fmt::format("a whole number from {} to {}", least, most));
      return least;
    }
    return *number->integer;
  }
  bool flag(char const* key) {
    auto const* const flag = value<bool>(key);
    if (flag == nullptr) {
      refuse(key, "true or false");
    }
    return flag != nullptr && *flag;
  }
  std::string text(char const* key) {
    auto const* const text = value<std::string>(key);
    if (text == nullptr || text->empty()) {
      refuse(key, "a string that is not empty");
    }
    return text == nullptr ? std::string{} : *text;
  }
  /// The index of the word among those allowed.
  template <class Words>
  std::size_t word(char const* key, Words const& words) {
    auto const* const text = value<std::string>(key);
    std::string allowed;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (text != nullptr && *text == words.at(i)) {
        return i;
      }
      allowed += fmt::format("{}\"{}\"", i == 0 ? "" : " or ", words.at(i));
    }
    refuse(key, allowed);
    return 0;
  }
  std::array<std::uint64_t, 8> bytes(char const* key) {
    auto const* const text = value<std::string>(key);
    auto const data = text == nullptr ? std::nullopt : from_hex(*text);
    if (!data) {
      refuse(key, "a string of 128 hexadecimal digits in lower case");
    }
    return data.value_or(std::array<std::uint64_t, 8>{});
  }
  std::vector<double> numbers(char const* key, std::size_t most) {
    auto const* const array = value<config::Array>(key);
    std::vector<double> all;
    for (auto const& node : array == nullptr ? config::Array{} : *array) {
      if (auto const* const number = std::get_if<config::Number>(&node.value); number != nullptr && number->real >= 0) {
        all.push_back(number->real);
      }
    }
    if (array == nullptr || all.empty() || all.size() != array->size() || all.size() > most) {
      refuse(key, fmt::format("an array of 1 to {} numbers of at least 0", most));
      return {0};
    }
    return all;
  }
  config::Array const& array(char const* key) {
    static config::Array const none;
    auto const* const array = value<config::Array>(key);
    if (array == nullptr) {
      refuse(key, "an array of objects");
    }
    return array == nullptr ? none : *array;
  }
  void refuse(char const* key, std::string const& allowed) {
    auto const* const member = find(object_, key);
    problems_.push_back(
        {path_ + key, member == nullptr ? 0 : member->line,
         fmt::format("is {}, must be {}", member == nullptr ? "missing" : show(member->node), allowed)});
  }
  /// Call after all members were read.
  void expect_no_more() {
    for (auto const& member : object_) {
      if (known_.find("," + member.name + ",") == std::string::npos) {
        problems_.push_back({path_ + config::path_part(member.name), member.line,
                             "unknown; allowed: " + known_.substr(1, known_.size() - 2)});
      }
    }
  }

 private:
  template <class Value>
  Value const* value(std::string_view key) {
    known_ += fmt::format("{},", key);
    auto const* const member = find(object_, key);
    return member == nullptr ? nullptr : std::get_if<Value>(&member->node.value);
  }

  config::Object const& object_;
  std::string path_;
  config::Problems& problems_;
  std::string known_ = ",";
};

ProductKind read_kind(Reader& reader) {
  std::array<std::string_view, dtypes.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names.at(i) = name_of(dtypes.at(i));
  }
  auto const extent = [&](char const* key) { return reader.integer(key, 1, longest); };
  ProductKind kind{};
  kind.m = extent("m");
  kind.n = extent("n");
  kind.k = extent("k");
  kind.a_stride = extent("a_stride");
  kind.b_stride = extent("b_stride");
  kind.out_stride = extent("out_stride");
  kind.a_transposed = reader.flag("a_transposed");
  kind.b_transposed = reader.flag("b_transposed");
  kind.factors = dtypes.at(reader.word("factors", names));
  kind.out = dtypes.at(reader.word("out", names));
  kind.epilogue = static_cast<Epilogue>(reader.word("epilogue", epilogues));
  return kind;
}

Algorithm read_algorithm(Reader& reader, ProductKind const& kind) {
  Algorithm algorithm;
  algorithm.data = reader.bytes("algorithm");
  algorithm.us = reader.numbers("us", results_compared);
  algorithm.result = static_cast<int>(reader.integer("result", 0, std::ssize(algorithm.us) - 1));
  algorithm.workspace_bytes = reader.integer("workspace_bytes", 0, workspace_bytes);
  algorithm.separate_gelu = reader.flag("separate_gelu");
  bool const needs_it = has_gelu(kind.epilogue) && !may_fuse_gelu(kind);
  if (algorithm.separate_gelu ? !has_gelu(kind.epilogue) : needs_it) {
    reader.refuse("separate_gelu", needs_it ? "true for this product" : "false without GELU");
  }
  return algorithm;
}

Json to_json(ProductKind const& kind, Algorithm const& algorithm) {
  return {{"m", kind.m},
          {"n", kind.n},
          {"k", kind.k},
          {"a_stride", kind.a_stride},
          {"b_stride", kind.b_stride},
          {"out_stride", kind.out_stride},
          {"a_transposed", kind.a_transposed},
          {"b_transposed", kind.b_transposed},
          {"factors", name_of(kind.factors)},
          {"out", name_of(kind.out)},
          {"epilogue", epilogues.at(static_cast<std::size_t>(kind.epilogue))},
          {"algorithm", to_hex(algorithm.data)},
          {"us", algorithm.us},
          {"result", algorithm.result},
          {"workspace_bytes", algorithm.workspace_bytes},
          {"separate_gelu", algorithm.separate_gelu}};
}

}  // namespace

bool may_fuse_gelu(ProductKind const& kind) {
  constexpr std::int64_t gelu_columns = 8;
  return kind.n % gelu_columns == 0 && kind.out != Dtype::fp32;
}

Algorithms Algorithms::parse(std::string_view text, std::string const& source) {
  config::Problems problems;
  auto const document = config::read_document(text, problems, config::Comments::refused);
  config::throw_if_any(source, problems);
  Reader reader{document, "", problems};
  Algorithms all{source, {}};
  all.origin_.gpu = reader.text("gpu");
  all.origin_.cublaslt = reader.integer("cublaslt", 1, longest);
  all.origin_.tf32 = reader.flag("tf32");
  std::size_t index = 0;
  for (auto const& node : reader.array("products")) {
    auto const path = fmt::format("products[{}]", index++);
    auto const* const object = std::get_if<config::Object>(&node.value);
    if (object == nullptr) {
      problems.push_back({path, 0, fmt::format("is {}, must be an object", show(node))});
      continue;
    }
    Reader product{*object, path + ".", problems};
    auto const kind = read_kind(product);
    auto const algorithm = read_algorithm(product, kind);
    product.expect_no_more();
    if (!all.algorithms_.emplace(kind, algorithm).second && problems.empty()) {
      problems.push_back({path, object->empty() ? 0 : object->front().line,
                          fmt::format("{} occurs twice; allowed: once", gpt::describe(kind))});
    }
  }
  reader.expect_no_more();
  config::throw_if_any(source, problems);
  return all;
}

std::string Algorithms::to_json() const {
  auto products = Json::array();
  for (auto const& [kind, algorithm] : algorithms_) {
    products.push_back(gpu::to_json(kind, algorithm));
  }
  Json const file{
      {"gpu", origin_.gpu}, {"cublaslt", origin_.cublaslt}, {"tf32", origin_.tf32}, {"products", std::move(products)}};
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void Algorithms::add(ProductKind const& kind, Algorithm algorithm) {
  algorithms_.insert_or_assign(without_addend(kind), std::move(algorithm));
}

bool Algorithms::contain(ProductKind const& kind) const { return algorithms_.contains(without_addend(kind)); }

Algorithm const& Algorithms::of(ProductKind const& kind) const {
  auto const found = algorithms_.find(without_addend(kind));
  if (found == algorithms_.end()) {
    throw zeroth::ConfigError{fmt::format(
        "{}: products has no choice for {}; allowed are the shapes, dtypes and micro-batch of the model that "
        "bench_cuda_gpt --algorithms measured: measure this one, or leave --algorithms out",
        source_, gpt::describe(kind))};
  }
  return found->second;
}

void Algorithms::expect_origin(Origin const& here) const {
  auto const refuse = [&](char const* key, auto const& value, auto const& allowed) {
    throw zeroth::ConfigError{
        fmt::format("{}: {} is {}, but this rank has {}: measure again with bench_cuda_gpt --algorithms, or leave "
                    "--algorithms out",
                    source_, key, value, allowed)};
  };
  if (origin_.gpu != here.gpu) {
    refuse("gpu", config::in_quotes(origin_.gpu), config::in_quotes(here.gpu));
  }
  if (origin_.cublaslt != here.cublaslt) {
    refuse("cublaslt", origin_.cublaslt, here.cublaslt);
  }
  if (origin_.tf32 != here.tf32) {
    refuse("tf32", origin_.tf32, here.tf32);
  }
}

}  // namespace gpt::gpu
