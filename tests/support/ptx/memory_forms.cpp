// SPDX-License-Identifier: Apache-2.0
#include "support/ptx/memory_forms.hpp"

#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "support/ptx/block.hpp"
#include "support/ptx/forms.hpp"

namespace zeroth::testing::ptx {
namespace {

std::byte const* inside(std::byte const* begin, std::size_t size, std::uint64_t at, std::size_t bytes,
                        char const* space) {
  if (at % bytes != 0 || at > size || bytes > size - at) {
    throw Fault{"access to " + std::to_string(bytes) + " bytes at " + space + " address " + std::to_string(at) +
                " of " + std::to_string(size)};
  }
  return begin + at;
}

template <Space space>
std::byte const* to_read(Warp& warp, std::uint64_t address, std::size_t bytes, int lane) {
  Block& block = warp.block();
  if constexpr (space == Space::global) {
    return block.global.read(address, bytes);
  } else if constexpr (space == Space::shared) {
    return block.shared.read(address, bytes, warp.thread_of(lane));
  } else if constexpr (space == Space::parameters) {
    auto const& arguments = block.launch.arguments;
    return inside(arguments.data(), arguments.size(), address, bytes, "parameter");
  } else {
    auto const mine = static_cast<std::size_t>(warp.thread_of(lane)) * block.kernel.local_bytes;
    return inside(block.local.data() + mine, block.kernel.local_bytes, address, bytes, "local");
  }
}

template <Space space>
std::byte* to_write(Warp& warp, std::uint64_t address, std::size_t bytes, int lane) {
  Block& block = warp.block();
  if constexpr (space == Space::global) {
    return block.global.write(address, bytes, warp.thread_of(lane));
  } else if constexpr (space == Space::shared) {
    return block.shared.write(address, bytes, warp.thread_of(lane));
  } else {
    static_assert(space == Space::local);
    return const_cast<std::byte*>(to_read<space>(warp, address, bytes, lane));  // the block's own
  }
}

/// Calls `function` for each lane, and adds the thread to a Fault's message.
template <class F>
void for_each_thread(Warp& warp, Lanes lanes, F const& function) {
  for_each_lane(lanes, [&](int lane) {
    try {
      function(lane);
    } catch (Fault const& fault) {
      throw Fault{"thread " + std::to_string(warp.thread_of(lane)) + ": " + fault.what()};
    }
  });
}

/// Counts the cost of an instruction's accesses of `bytes` bytes.
template <Space space>
void count(Warp& warp, Addresses const& at, Lanes lanes, std::size_t bytes) {
  if (!warp.block().launch.behaviour.counts_traffic) {
    return;
  }
  if constexpr (space == Space::global) {
    count_global(warp.block().traffic, at, lanes, bytes);
  } else if constexpr (space == Space::shared) {
    count_shared(warp.block().traffic, at, lanes, bytes);
  }
}

template <Space space, class Memory, class Register>
void load(Warp& warp, Instruction const& instruction, Lanes lanes) {
  auto const elements = std::size_t{instruction.elements};
  Addresses at{};
  for_each_thread(warp, lanes, [&](int lane) {
    auto const address = at[static_cast<std::size_t>(lane)] = warp.address(instruction, 0, lane);
    auto const* from = to_read<space>(warp, address, elements * sizeof(Memory), lane);
    for (std::size_t i = 0; i < elements; ++i) {
      auto const value = static_cast<Register>(value_of<Memory>(from, static_cast<int>(i)));
      set_value(warp.registers() + instruction.to[i], lane, value);
    }
  });
  count<space>(warp, at, lanes, elements * sizeof(Memory));
}

template <Space space, class Memory, class Register>
void store(Warp& warp, Instruction const& instruction, Lanes lanes) {
  auto const elements = std::size_t{instruction.elements};
  Addresses at{};
  for_each_thread(warp, lanes, [&](int lane) {
    auto const address = at[static_cast<std::size_t>(lane)] = warp.address(instruction, 0, lane);
    auto* const to = to_write<space>(warp, address, elements * sizeof(Memory), lane);
    for (std::size_t i = 0; i < elements; ++i) {
      auto const value = value_of<Register>(warp.registers() + instruction.from[i + 1], lane);
      set_value(to, static_cast<int>(i), static_cast<Memory>(value));
    }
  });
  count<space>(warp, at, lanes, elements * sizeof(Memory));
}

template <class Memory, class Register>
Execute execute_of(Access const& access) {
  switch (access.space) {
    case Space::global:
      return access.store ? &store<Space::global, Memory, Register> : &load<Space::global, Memory, Register>;
    case Space::shared:
      return access.store ? &store<Space::shared, Memory, Register> : &load<Space::shared, Memory, Register>;
    case Space::local:
      return access.store ? &store<Space::local, Memory, Register> : &load<Space::local, Memory, Register>;
    case Space::parameters: break;
  }
  if (access.store) {
    throw std::runtime_error{"PTX: a store to parameters"};
  }
  return &load<Space::parameters, Memory, Register>;
}

template <class Memory>
Execute execute_of(Access const& access, int register_bytes) {
  switch (register_bytes) {
    case 2:
      return execute_of<Memory, std::conditional_t<std::is_signed_v<Memory>, std::int16_t, std::uint16_t>>(access);
    case 4:
      return execute_of<Memory, std::conditional_t<std::is_signed_v<Memory>, std::int32_t, std::uint32_t>>(access);
    case 8:
      return execute_of<Memory, std::conditional_t<std::is_signed_v<Memory>, std::int64_t, std::uint64_t>>(access);
    default: throw std::runtime_error{"PTX: memory accessed with a predicate"};
  }
}

}  // namespace

Access access_of(std::string const& opcode) {
  Access access;
  access.store = opcode.starts_with("st.");
  auto rest = opcode.substr(3);
  auto const take = [&](std::string const& part) {
    bool const there = rest.starts_with(part + ".");
    rest = there ? rest.substr(part.size() + 1) : rest;
    return there;
  };
  if (take("shared")) {
    access.space = Space::shared;
  } else if (take("local")) {
    access.space = Space::local;
  } else if (take("param")) {
    access.space = Space::parameters;
  } else if (!take("global")) {
    throw std::runtime_error{"PTX: " + opcode + " is not known"};
  }
  access.elements = take("v4") ? 4 : take("v2") ? 2 : 1;
  auto const known = std::string{"busf"}.find(rest.empty() ? '?' : rest[0]);
  auto const bits = known == std::string::npos ? std::string{} : rest.substr(1);
  access.has_sign = known == 2;
  access.bytes = bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : 0;
  if (access.bytes == 0) {
    throw std::runtime_error{"PTX: " + opcode + " is not known"};
  }
  return access;
}

Execute execute_access(Access const& access, int register_bytes) {
  switch (access.bytes) {
    case 1:
      return access.has_sign ? execute_of<std::int8_t>(access, register_bytes)
                             : execute_of<std::uint8_t>(access, register_bytes);
    case 2:
      return access.has_sign ? execute_of<std::int16_t>(access, register_bytes)
                             : execute_of<std::uint16_t>(access, register_bytes);
    case 4:
      return access.has_sign ? execute_of<std::int32_t>(access, register_bytes)
                             : execute_of<std::uint32_t>(access, register_bytes);
    default:
      return access.has_sign ? execute_of<std::int64_t>(access, register_bytes)
                             : execute_of<std::uint64_t>(access, register_bytes);
  }
}

void execute_copy(Warp& warp, Instruction const& instruction, Lanes lanes) {
  Addresses read{}, written{};
  Lanes reading = 0;  // the others write zeros
  std::size_t bytes = 0;
  for_each_thread(warp, lanes, [&](int lane) {
    auto const size = [&](std::size_t operand) {
      return value_of<std::uint32_t>(warp.registers() + instruction.from[operand], lane);
    };
    auto const to = value_of<std::uint32_t>(warp.registers() + instruction.from[0], lane);
    auto const from = value_of<std::uint64_t>(warp.registers() + instruction.from[1], lane);
    warp.block().copies.copy(warp, lane, to, from, size(2), size(3));
    read[static_cast<std::size_t>(lane)] = from;
    written[static_cast<std::size_t>(lane)] = to;
    reading |= size(3) > 0 ? Lanes{1} << lane : 0;
    bytes = size(2);
  });
  count<Space::global>(warp, read, reading, bytes);
  count<Space::shared>(warp, written, lanes, bytes);
}

void execute_commit(Warp& warp, Instruction const& /*instruction*/, Lanes lanes) {
  for_each_lane(lanes, [&](int lane) { warp.block().copies.commit(warp.thread_of(lane)); });
}

void execute_wait(Warp& warp, Instruction const& instruction, Lanes lanes) {
  for_each_lane(lanes, [&](int lane) { warp.block().copies.wait(warp, lane, instruction.offset); });
}

}  // namespace zeroth::testing::ptx
