// SPDX-License-Identifier: Apache-2.0
/// PTX as text: kernels taken apart into statements, of which nothing is understood yet.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace zeroth::testing::ptx {

/// `@!%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+8];`
struct Statement {
  int line = 0;                       ///< Of the text that it was found in, from 1.
  std::string guard;                  ///< "%p1", or empty.
  bool unless = false;                ///< The guard is negated.
  std::string opcode;                 ///< "ld.global.v2.u32"
  std::vector<std::string> operands;  ///< "{%r1, %r2}", "[%rd1+8]"

  [[nodiscard]] std::string text() const;
};

struct KernelSource {
  std::string name;
  int max_threads = 0;                        ///< .maxntid; 0 if it is not said.
  std::vector<Statement> parameters;          ///< .param, as declared
  std::vector<Statement> statements;          ///< Declarations (.reg, .shared, .local) among them.
  std::map<std::string, std::size_t> labels;  ///< The statement that follows.
};

/// The text of one kernel within that of a module, and the line that it begins in.
struct KernelText {
  std::string text;
  int line = 1;
};
/// By name.
[[nodiscard]] std::map<std::string, KernelText> kernels_of(std::string_view module);

/// Throws std::runtime_error if the text is not that of a kernel.
[[nodiscard]] KernelSource take_apart(KernelText const& kernel);

[[nodiscard]] std::string_view trimmed(std::string_view text);
/// At commas (and at the bar of `%r1|%p1`) outside brackets and braces.
[[nodiscard]] std::vector<std::string> split_operands(std::string_view text);

}  // namespace zeroth::testing::ptx
