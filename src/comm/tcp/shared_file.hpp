// SPDX-License-Identifier: Apache-2.0
/// Unnamed files through which processes of one machine share memory.
#pragma once
#include <cstdint>
#include <string>

#include "comm/store/socket.hpp"

namespace zeroth::comm {

/// A file that process `process` has open, as other processes find it. Device and inode identify it among all files of
/// the machine.
struct SharedFile {
  std::uint64_t device = 0, inode = 0;
  std::int32_t process = 0;
  std::int32_t descriptor = -1;  ///< In that process; -1: none.
};

/// Makes a file of `bytes` zeros. Throws SystemError on failure.
[[nodiscard]] Descriptor make_shared_file(char const* name, std::int64_t bytes);
/// The description, for other processes, of a file that this process has open.
[[nodiscard]] SharedFile describe_file(int descriptor);
/// Opens the file with `flags` of open(). Throws SystemError if it cannot be opened, is smaller than `bytes`, or was
/// replaced by another file, which is then neither read nor written.
[[nodiscard]] Descriptor open_shared(SharedFile const& file, std::int64_t bytes, int flags);

[[nodiscard]] std::string encode(SharedFile const& file);
/// Throws BadFrame.
[[nodiscard]] SharedFile decode_shared_file(std::string_view bytes);

/// The same in all processes that see each other's process ids and have the same host name, and different in all
/// others.
[[nodiscard]] std::string memory_domain();

}  // namespace zeroth::comm
