// SPDX-License-Identifier: Apache-2.0
/// PTX as text: kernels split into statements, which are not interpreted yet.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::testing::ptx {

/// `@!%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+8];`
struct Statement {
  int line = 0;                       ///< In the text that contains it, from 1.
  std::string guard;                  ///< "%p1", or empty.
  bool unless = false;                ///< The guard is negated.
  std::string opcode;                 ///< "ld.global.v2.u32"
  std::vector<std::string> operands;  ///< "{%r1, %r2}", "[%rd1+8]"

  [[nodiscard]] std::string text() const;
};

struct KernelSource {
  std::string name;
  int max_threads = 0;                        ///< .maxntid; 0 if not set.
  std::vector<Statement> parameters;          ///< .param, as declared
  std::vector<Statement> statements;          ///< Includes declarations (.reg, .shared, .local).
  std::map<std::string, std::size_t> labels;  ///< The index of the statement that follows.
};

/// The text of one kernel in a module, and its first line.
struct KernelText {
  std::string text;
  int line = 1;
};
/// By name.
[[nodiscard]] std::map<std::string, KernelText> kernels_of(std::string_view module);

/// Throws std::runtime_error if the text is not that of a kernel.
[[nodiscard]] KernelSource take_apart(KernelText const& kernel);

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// Splits at commas (and at the bar of `%r1|%p1`) outside of brackets and braces.
[[nodiscard]] std::vector<std::string> split_operands(std::string_view text);

}  // namespace zeroth::testing::ptx
