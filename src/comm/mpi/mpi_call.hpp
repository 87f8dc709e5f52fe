// SPDX-License-Identifier: Apache-2.0
/// Wrappers for MPI's error codes and its 32-bit counts.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <string>

namespace zeroth::comm {

/// MPI's text for `code`.
[[nodiscard]] std::string mpi_error_text(int code);
/// Throws SystemError naming the call.
[[noreturn]] void throw_mpi_error(int code, char const* call);

/// MPI only returns codes on communicators with the error handler MPI_ERRORS_RETURN; each of ours has it.
inline void check_mpi(int code, char const* call) {
  if (code != MPI_SUCCESS) [[unlikely]] {
    throw_mpi_error(code, call);
  }
}
#define ZEROTH_MPI(call) ::zeroth::comm::check_mpi((call), #call)

/// A number of elements as MPI counts them.
struct MpiExtent {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};
/// `bytes` as a count and a type: bytes if they fit MPI's int, otherwise one element of a new type of that size, which
/// the caller frees.
[[nodiscard]] MpiExtent mpi_extent(std::int64_t bytes);

}  // namespace zeroth::comm
