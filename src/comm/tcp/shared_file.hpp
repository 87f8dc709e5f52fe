// SPDX-License-Identifier: Apache-2.0
/// Files without names, by which processes of one machine share memory.
#pragma once
#include <cstdint>
#include <string>

#include "comm/store/socket.hpp"

namespace zeroth::comm {

/// One that process `process` has open, as others find it. Device and inode tell it from every other file of the
/// machine.
struct SharedFile {
  std::uint64_t device = 0, inode = 0;
  std::int32_t process = 0;
  std::int32_t descriptor = -1;  ///< There; -1: none.
};

/// Makes one of `bytes` zeros. Throws SystemError where the system refuses.
[[nodiscard]] Descriptor make_shared_file(char const* name, std::int64_t bytes);
/// What others are to be told of a file that this process has open.
[[nodiscard]] SharedFile describe_file(int descriptor);
/// Opens it with `flags` of open(). Throws SystemError where it cannot be opened, has fewer than `bytes`, or what is in
/// its place is another file, which is then neither read nor written.
[[nodiscard]] Descriptor open_shared(SharedFile const& file, std::int64_t bytes, int flags);

[[nodiscard]] std::string encode(SharedFile const& file);
/// Throws BadFrame.
[[nodiscard]] SharedFile decode_shared_file(std::string_view bytes);

/// The same in all processes that see each other's process ids and call their machine by one name; of no others.
[[nodiscard]] std::string memory_domain();

}  // namespace zeroth::comm
