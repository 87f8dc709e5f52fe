// SPDX-License-Identifier: Apache-2.0
/// MPI's own errors and its 32-bit counts, met once.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <string>

namespace zeroth::comm {

/// What MPI says about `code`.
[[nodiscard]] std::string mpi_error_text(int code);
/// Throws SystemError naming the call.
[[noreturn]] void throw_mpi_error(int code, char const* call);

/// MPI returns codes only on communicators whose error handler is MPI_ERRORS_RETURN; every one of ours has it.
inline void check_mpi(int code, char const* call) {
  if (code != MPI_SUCCESS) [[unlikely]] {
    throw_mpi_error(code, call);
  }
}
#define ZEROTH_MPI(call) ::zeroth::comm::check_mpi((call), #call)

/// Elements as MPI counts them.
struct MpiExtent {
  int count = 0;
  MPI_Datatype type = MPI_BYTE;
};
/// `bytes` as a count and a type: bytes while they fit MPI's int, otherwise one element of a new type that is as long
/// as all of them, which the caller frees.
[[nodiscard]] MpiExtent mpi_extent(std::int64_t bytes);

}  // namespace zeroth::comm
