// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/operands.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {
namespace {

/// For ".b32"; 0 for ".pred".
int bytes_of_type(std::string const& type) {
  if (type == ".pred") {
    return 0;
  }
  auto const bits = type.size() < 3 ? 0 : std::stoi(type.substr(2));
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    throw std::runtime_error{"PTX: the type " + type + " is not known"};
  }
  return bits / 8;
}

/// "name" and 12 for "name[12]" or "name<12>"; 0 if there is no number.
std::pair<std::string, std::uint64_t> name_and_count(std::string const& text, char open) {
  auto const at = text.find(open);
  return {text.substr(0, at), at == std::string::npos ? 0 : std::stoull(text.substr(at + 1))};
}

}  // namespace

Operands::Operands(Kernel& kernel) : kernel_{kernel} {
  for (auto const& [name, place] : {std::pair{"%tid.x", &kernel.thread},
                                    {"%ctaid.x", &kernel.block},
                                    {"%ntid.x", &kernel.threads},
                                    {"%nctaid.x", &kernel.blocks}}) {
    *place = add_slot(sizeof(std::uint32_t));
    registers_[name] = {sizeof(std::uint32_t), 0};
    slots_[name] = *place;
  }
}

void Operands::declare(Statement const& declaration) {
  if (declaration.opcode == ".reg") {
    auto const [name, count] = name_and_count(declaration.operands.at(1), '<');
    registers_[name] = {bytes_of_type(declaration.operands.at(0)), count};
    slots_.erase(name);  // a block may reuse the name of an earlier block's register
  } else if (declaration.opcode == ".param") {
    declare_variable(declaration, kernel_.parameter_bytes);
  } else if (declaration.opcode == ".shared") {
    declare_variable(declaration, kernel_.shared_bytes);
  } else if (declaration.opcode == ".local") {
    declare_variable(declaration, kernel_.local_bytes);
  } else if (declaration.opcode != ".pragma") {
    throw std::runtime_error{"PTX: " + declaration.opcode + " is not known"};
  }
}

void Operands::declare_variable(Statement const& declaration, std::size_t& bytes) {
  // .align 16 .b8 name[123]
  auto const& words = declaration.operands;
  bool const aligned = words.at(0) == ".align";
  auto const type = static_cast<std::size_t>(bytes_of_type(words.at(aligned ? 2 : 0)));
  auto const align = aligned ? std::stoull(words.at(1)) : type;
  auto const [name, count] = name_and_count(words.back(), '[');
  auto const size = type * std::max<std::uint64_t>(count, 1);
  auto const offset = (bytes + align - 1) / align * align;
  variables_[name] = offset;
  bytes = offset + size;
  if (declaration.opcode == ".param") {
    kernel_.parameters.push_back({offset, size});
  }
}

Operands::Registers const* Operands::declared(std::string const& name) const {
  if (auto const exact = registers_.find(name); exact != registers_.end()) {
    return &exact->second;
  }
  auto const digits = name.find_last_not_of("0123456789") + 1;
  auto const range = registers_.find(name.substr(0, digits));
  bool const there =
      digits < name.size() && range != registers_.end() && std::stoull(name.substr(digits)) < range->second.count;
  return there ? &range->second : nullptr;
}

std::optional<int> Operands::bytes_of(std::string const& operand) const {
  auto const* const found = declared(operand);
  return found == nullptr ? std::nullopt : std::optional{found->bytes};
}

Slot Operands::slot(std::string const& operand, int bytes) {
  auto const* const found = declared(operand);
  if (found == nullptr) {
    return constant_slot(constant(operand), bytes);
  }
  if (found->bytes != bytes) {
    throw std::runtime_error{"PTX: " + operand + " has not " + std::to_string(bytes) + " bytes"};
  }
  auto const [there, added] = slots_.try_emplace(operand);
  if (added) {
    there->second = add_slot(bytes);
  }
  return there->second;
}

std::uint64_t Operands::constant(std::string const& operand) const {
  if (auto const variable = variables_.find(operand); variable != variables_.end()) {
    return variable->second;
  }
  if (operand.starts_with("0f") || operand.starts_with("0d")) {
    return std::stoull(operand.substr(2), nullptr, 16);
  }
  if (operand.empty() || std::string_view{"-0123456789"}.find(operand[0]) == std::string_view::npos) {
    throw std::runtime_error{"PTX: " + operand + " was not declared"};
  }
  return operand[0] == '-' ? static_cast<std::uint64_t>(std::stoll(operand, nullptr, 0))
                           : std::stoull(operand, nullptr, 0);
}

Slot Operands::constant_slot(std::uint64_t value, int bytes) {
  auto const [there, added] = constants_.try_emplace({value, bytes});
  if (added) {
    there->second = add_slot(bytes);
  }
  return there->second;
}

Slot Operands::add_slot(int bytes) {
  constexpr std::size_t alignment = 32;  // bytes, for vectors
  auto const slot = register_bytes_;
  auto const size = bytes == 0 ? sizeof(Lanes) : static_cast<std::size_t>(bytes) * warp_lanes;
  register_bytes_ += (size + alignment - 1) / alignment * alignment;
  return static_cast<Slot>(slot);
}

Slot Operands::always() { return constant_slot(1, 0); }

void Operands::address(Instruction& instruction, std::size_t from, std::string const& operand) {
  if (operand.size() < 3 || operand.front() != '[' || operand.back() != ']') {
    throw std::runtime_error{"PTX: " + operand + " is no address"};
  }
  auto const inside = operand.substr(1, operand.size() - 2);
  auto const plus = inside.find('+');
  if (plus != std::string::npos) {
    instruction.offset = std::stoll(inside.substr(plus + 1));
  }
  auto const base = std::string{trimmed(inside.substr(0, plus))};
  auto const bytes = bytes_of(base).value_or(sizeof(std::uint64_t));
  instruction.address_bytes = static_cast<std::uint8_t>(bytes);
  instruction.from.at(from) = slot(base, bytes);
}

void Operands::finish() {
  kernel_.registers.assign(register_bytes_, std::byte{0xef});
  for (auto const& [constant, slot] : constants_) {
    auto const [value, bytes] = constant;
    std::byte* const to = kernel_.registers.data() + slot;
    if (bytes == 0) {
      Lanes const lanes = (value & 1U) != 0 ? all_lanes : 0;
      std::memcpy(to, &lanes, sizeof(lanes));
    }
    for (int lane = 0; lane < warp_lanes; ++lane) {  // the lowest bytes come first
      std::memcpy(to + lane * bytes, &value, static_cast<std::size_t>(bytes));
    }
  }
}

}  // namespace zeroth::testing::ptx
