// SPDX-License-Identifier: Apache-2.0
/// Instructions that every thread executes for itself, in registers only.
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/ptx/kernel.hpp"
#include "support/ptx/warp.hpp"

namespace zeroth::testing::ptx {

/// An opcode with its types. `to` and `from` have the bytes of each operand; 0: a predicate.
struct Form {
  Execute execute = nullptr;
  std::vector<int> to, from;
};

/// Indexed by opcode: "add.s32". Made on first use.
using Forms = std::map<std::string, Form, std::less<>>;
[[nodiscard]] Forms const& forms();

void add_integer_forms(Forms& forms);
void add_float_forms(Forms& forms);
void add_conversion_forms(Forms& forms);

template <class T>
[[nodiscard]] T value_of(std::byte const* slot, int lane) {
  if constexpr (std::is_same_v<T, bool>) {
    Lanes lanes;
    std::memcpy(&lanes, slot, sizeof(lanes));
    return contains(lanes, lane);
  } else {
    T value;
    std::memcpy(&value, slot + static_cast<std::size_t>(lane) * sizeof(T), sizeof(T));
    return value;
  }
}
template <class T>
void set_value(std::byte* slot, int lane, T value) {
  std::memcpy(slot + static_cast<std::size_t>(lane) * sizeof(T), &value, sizeof(T));
}

/// An instruction that is a function of a thread's own operands, each of the type of its registers.
template <auto function>
struct Each;

template <class R, class... A, R (*function)(A...)>
struct Each<function> {
  static void execute(Warp& warp, Instruction const& instruction, Lanes lanes) {
    execute(warp, instruction, lanes, std::index_sequence_for<A...>{});
  }
  [[nodiscard]] static Form form() { return {&execute, {bytes<R>}, {bytes<A>...}}; }

 private:
  template <class T>
  static constexpr int bytes = std::is_same_v<T, bool> ? 0 : static_cast<int>(sizeof(T));

  template <std::size_t... n>
  static void execute(Warp& warp, Instruction const& instruction, Lanes lanes, std::index_sequence<n...>) {
    std::byte* const registers = warp.registers();
    std::byte* const to = registers + instruction.to[0];
    std::array<std::byte const*, sizeof...(A)> const from{registers + instruction.from[n]...};
    if constexpr (std::is_same_v<R, bool>) {
      Lanes result = 0;
      for (int lane = 0; lane < warp_lanes; ++lane) {  // other lanes' results are ignored
        result |= Lanes{function(value_of<A>(from[n], lane)...)} << lane;
      }
      warp.set_predicate(instruction.to[0], lanes, result);
    } else if (lanes == all_lanes) {
#pragma GCC ivdep
      for (int lane = 0; lane < warp_lanes; ++lane) {
        set_value<R>(to, lane, function(value_of<A>(from[n], lane)...));
      }
    } else {
      for_each_lane(lanes, [&](int lane) { set_value<R>(to, lane, function(value_of<A>(from[n], lane)...)); });
    }
  }
};

template <auto function>
void add_form(Forms& forms, std::string const& opcode) {
  forms[opcode] = Each<function>::form();
}

}  // namespace zeroth::testing::ptx
