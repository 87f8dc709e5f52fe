// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/decode.hpp"

#include <stdexcept>
#include <utility>

#include "support/ptx/forms.hpp"
#include "support/ptx/memory_forms.hpp"
#include "support/ptx/operands.hpp"
#include "support/ptx/warp_forms.hpp"

namespace zeroth::testing::ptx {
namespace {

/// The elements of "{%r1, %r2}"; for other operands the operand itself.
std::vector<std::string> elements_of(std::string const& operand) {
  return operand.starts_with('{') ? split_operands(std::string_view{operand}.substr(1, operand.size() - 2))
                                  : std::vector{operand};
}

/// Combines two or four narrow values into a wide one, or splits it.
template <class Wide, class Narrow>
void pack(Warp& warp, Instruction const& instruction, Lanes lanes) {
  for_each_lane(lanes, [&](int lane) {
    Wide value = 0;
    for (std::size_t i = 0; i < instruction.elements; ++i) {
      auto const part = value_of<Narrow>(warp.registers() + instruction.from[i], lane);
      value |= static_cast<Wide>(Wide{part} << (i * sizeof(Narrow) * 8));
    }
    set_value(warp.registers() + instruction.to[0], lane, value);
  });
}
template <class Wide, class Narrow>
void unpack(Warp& warp, Instruction const& instruction, Lanes lanes) {
  for_each_lane(lanes, [&](int lane) {
    auto const value = value_of<Wide>(warp.registers() + instruction.from[0], lane);
    for (std::size_t i = 0; i < instruction.elements; ++i) {
      set_value(warp.registers() + instruction.to[i], lane, static_cast<Narrow>(value >> (i * sizeof(Narrow) * 8)));
    }
  });
}

class Decoder {
 public:
  explicit Decoder(KernelSource const& source) : source_{source}, operands_{kernel_} {}

  Kernel decode() {
    kernel_.name = source_.name;
    kernel_.max_threads = source_.max_threads;
    for (auto const& parameter : source_.parameters) {
      operands_.declare(parameter);
    }
    std::vector<std::uint32_t> places;  // positions of statements in the code
    for (auto const& statement : source_.statements) {
      places.push_back(static_cast<std::uint32_t>(kernel_.code.size()));
      try {
        add(statement);
      } catch (std::exception const& error) {
        throw std::runtime_error{std::string{error.what()} + ": line " + std::to_string(statement.line) + " of " +
                                 kernel_.name + ": " + statement.text()};
      }
    }
    places.push_back(static_cast<std::uint32_t>(kernel_.code.size()));
    for (auto const& [at, label] : branches_) {
      auto const found = source_.labels.find(label);
      if (found == source_.labels.end()) {
        throw std::runtime_error{"PTX: a branch to " + label + ", which is nowhere in " + kernel_.name};
      }
      kernel_.code[at].target = places[found->second];
    }
    operands_.finish();
    return std::move(kernel_);
  }

 private:
  void add(Statement const& statement) {
    if (statement.opcode.starts_with('.')) {
      operands_.declare(statement);
      return;
    }
    now_ = {};
    statement_ = &statement;
    now_.guard = statement.guard.empty() ? operands_.always() : operands_.slot(statement.guard, 0);
    now_.unless = statement.unless;
    fill(statement.opcode, statement.operands);
    if (now_.flow == Flow::together || now_.flow == Flow::barrier) {
      expect(statement.guard.empty());
    }
    emit();
  }

  void emit() {
    kernel_.code.push_back(now_);
    kernel_.origins.push_back({statement_->line, statement_->text()});
  }

  void fill(std::string const& opcode, std::vector<std::string> const& operands) {
    auto const is = [&](std::string_view name) {
      return opcode.starts_with(name) && opcode.substr(name.size())[0] == '.';
    };
    if (is("bra") || opcode == "bra") {
      now_.flow = Flow::branch;
      branches_.emplace_back(kernel_.code.size(), operands.at(0));
    } else if (opcode == "ret") {
      now_.flow = Flow::end;
    } else if (is("bar")) {
      expect(opcode == "bar.sync" && operands.size() == 1 && operands[0] == "0");
      now_.flow = Flow::barrier;
    } else if (is("ld") || is("st")) {
      access(opcode, operands);
    } else if (is("cp")) {
      asynchronous(opcode, operands);
    } else if (is("shfl") || is("ldmatrix") || is("mma")) {
      together(opcode, operands);
    } else if (is("mov") && (operands.at(0).starts_with('{') || operands.at(1).starts_with('{'))) {
      pack_or_unpack(opcode, operands);
    } else {
      plain(opcode, operands);
    }
  }

  static void expect(bool holds) {
    if (!holds) {
      throw std::runtime_error{"PTX: this is not known"};
    }
  }

  void plain(std::string const& opcode, std::vector<std::string> const& operands) {
    auto const form = forms().find(opcode);
    expect(form != forms().end());
    now_.execute = form->second.execute;
    auto const& [execute, to, from] = form->second;
    expect(operands.size() == to.size() + from.size());
    if (opcode.starts_with("cvt.") && operands_.bytes_of(operands[1]).value_or(0) > from[0]) {
      now_.from[0] = narrowed(operands[1], from[0]);
    } else {
      for (std::size_t i = 0; i < from.size(); ++i) {
        now_.from.at(i) = operands_.slot(operands[i + 1], from[i]);
      }
    }
    now_.to[0] = operands_.slot(operands[0], to[0]);
  }

  /// Emits an instruction that takes the lowest bytes of a register, because a conversion may use a wider one than its
  /// type.
  Slot narrowed(std::string const& operand, int bytes) {
    auto const wide = *operands_.bytes_of(operand);
    auto const conversion = forms().find("cvt.u" + std::to_string(bytes * 8) + ".u" + std::to_string(wide * 8));
    expect(conversion != forms().end());
    auto const whole = now_;
    now_.execute = conversion->second.execute;
    now_.from[0] = operands_.slot(operand, wide);
    now_.to[0] = operands_.temporary(bytes);
    auto const narrow = now_.to[0];
    emit();
    now_ = whole;
    return narrow;
  }

  void access(std::string const& opcode, std::vector<std::string> const& operands) {
    auto const access = access_of(opcode);
    auto const values = elements_of(operands.at(access.store ? 1 : 0));
    expect(static_cast<int>(values.size()) == access.elements);
    operands_.address(now_, 0, operands.at(access.store ? 0 : 1));
    auto const bytes = operands_.bytes_of(values[0]).value_or(access.bytes < 2 ? 2 : access.bytes);
    expect(bytes >= access.bytes);
    now_.elements = static_cast<std::uint8_t>(access.elements);
    now_.execute = execute_access(access, bytes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      (access.store ? now_.from.at(i + 1) : now_.to.at(i)) = operands_.slot(values[i], bytes);
    }
  }

  void asynchronous(std::string const& opcode, std::vector<std::string> const& operands) {
    if (opcode == "cp.async.commit_group") {
      now_.execute = &execute_commit;
    } else if (opcode == "cp.async.wait_group") {
      now_.execute = &execute_wait;
      now_.offset = std::stoll(operands.at(0));
    } else {
      expect((opcode == "cp.async.cg.shared.global" || opcode == "cp.async.ca.shared.global") && operands.size() == 4);
      now_.execute = &execute_copy;
      operands_.address(now_, 0, operands[0]);
      expect(now_.offset == 0 && now_.address_bytes == 4);
      operands_.address(now_, 1, operands[1]);
      expect(now_.offset == 0 && now_.address_bytes == 8);
      now_.from[2] = operands_.slot(operands[2], 4);
      now_.from[3] = operands_.slot(operands[3], 4);
    }
  }

  void together(std::string const& opcode, std::vector<std::string> const& operands) {
    now_.flow = Flow::together;
    if (opcode.starts_with("shfl")) {
      expect(operands.size() == 6);
      now_.execute = execute_shuffle(opcode);
      now_.to = {operands_.slot(operands[0], 4), operands_.slot(operands[1], 0)};
      for (std::size_t i = 0; i < 4; ++i) {
        now_.from.at(i) = operands_.slot(operands[i + 2], 4);
      }
      return;
    }
    std::size_t to = 0, from = 0;
    for (auto const& each : elements_of(operands.at(0))) {
      now_.to.at(to++) = operands_.slot(each, 4);
    }
    if (opcode.starts_with("ldmatrix")) {
      now_.execute = execute_load_matrix(opcode);
      operands_.address(now_, 0, operands.at(1));
      expect(to == 4 && operands.size() == 2);
      return;
    }
    now_.execute = execute_matrix_product(opcode);
    for (std::size_t n = 1; n < operands.size(); ++n) {
      for (auto const& each : elements_of(operands[n])) {
        now_.from.at(from++) = operands_.slot(each, 4);
      }
    }
    expect(to == 4 && from == 10);
  }

  void pack_or_unpack(std::string const& opcode, std::vector<std::string> const& operands) {
    bool const packs = operands.at(1).starts_with('{');
    auto const parts = elements_of(operands.at(packs ? 1 : 0));
    expect(opcode == "mov.b32" || opcode == "mov.b64");
    int const wide = opcode == "mov.b32" ? 4 : 8, narrow = wide / static_cast<int>(parts.size());
    if (wide == 4) {
      expect(narrow == 2);
      now_.execute = packs ? &pack<std::uint32_t, std::uint16_t> : &unpack<std::uint32_t, std::uint16_t>;
    } else if (narrow == 4) {
      now_.execute = packs ? &pack<std::uint64_t, std::uint32_t> : &unpack<std::uint64_t, std::uint32_t>;
    } else {
      expect(narrow == 2);
      now_.execute = packs ? &pack<std::uint64_t, std::uint16_t> : &unpack<std::uint64_t, std::uint16_t>;
    }
    now_.elements = static_cast<std::uint8_t>(parts.size());
    auto const whole = operands_.slot(operands.at(packs ? 0 : 1), wide);
    (packs ? now_.to[0] : now_.from[0]) = whole;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      (packs ? now_.from.at(i) : now_.to.at(i)) = operands_.slot(parts[i], narrow);
    }
  }

  KernelSource const& source_;
  Kernel kernel_;
  Operands operands_;
  Instruction now_;
  Statement const* statement_ = nullptr;
  std::vector<std::pair<std::size_t, std::string>> branches_;
};

}  // namespace

Kernel decode(KernelSource const& source) { return Decoder{source}.decode(); }

}  // namespace zeroth::testing::ptx
