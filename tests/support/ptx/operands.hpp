// SPDX-License-Identifier: Apache-2.0
/// Maps names, constants and addresses of a kernel's text to registers.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/ptx/kernel.hpp"
#include "support/ptx/source.hpp"

namespace zeroth::testing::ptx {

class Operands {
 public:
  explicit Operands(Kernel& kernel);

  /// .reg, .param, .shared, .local
  void declare(Statement const& declaration);

  /// A register of `bytes` bytes (0: a predicate), a constant or a variable's address.
  [[nodiscard]] Slot slot(std::string const& operand, int bytes);
  /// The size of a register; nullopt for other operands.
  [[nodiscard]] std::optional<int> bytes_of(std::string const& operand) const;
  /// Sets operand `from` of the instruction to the address `[operand]`.
  void address(Instruction& instruction, std::size_t from, std::string const& operand);
  /// A register without a name.
  [[nodiscard]] Slot temporary(int bytes) { return add_slot(bytes); }
  /// A predicate that is true for every lane.
  [[nodiscard]] Slot always();
  /// Writes the constants into the initial registers of a warp.
  void finish();

 private:
  struct Registers {
    int bytes;
    std::uint64_t count;  // %r0 and so on; 0: one without a number
  };

  [[nodiscard]] Registers const* declared(std::string const& name) const;
  [[nodiscard]] std::uint64_t constant(std::string const& operand) const;
  [[nodiscard]] Slot constant_slot(std::uint64_t value, int bytes);
  [[nodiscard]] Slot add_slot(int bytes);
  void declare_variable(Statement const& declaration, std::size_t& bytes);

  Kernel& kernel_;
  std::map<std::string, Registers> registers_;
  std::map<std::string, Slot> slots_;
  std::map<std::string, std::uint64_t> variables_;
  std::map<std::pair<std::uint64_t, int>, Slot> constants_;
  std::size_t register_bytes_ = 0;
};

}  // namespace zeroth::testing::ptx
