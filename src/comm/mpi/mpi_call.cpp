// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_call.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

#include "zeroth/core/error.hpp"

namespace zeroth::comm {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return fmt::format("MPI error {}", code);
  }
  return {text.data(), static_cast<std::size_t>(length)};
}

void throw_mpi_error(int code, char const* call) {
  std::string_view const text{call};
  throw SystemError{fmt::format("{} failed: {}", text.substr(0, text.find('(')), mpi_error_text(code))};
}

MpiExtent mpi_extent(std::int64_t bytes) {
  if (bytes <= std::numeric_limits<int>::max()) {
    return {static_cast<int>(bytes), MPI_BYTE};
  }
  constexpr std::int64_t block_bytes = 1 << 30;
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  ZEROTH_MPI(MPI_Type_contiguous(static_cast<int>(block_bytes), MPI_BYTE, &block));
  std::array<int, 2> const lengths{static_cast<int>(bytes / block_bytes), static_cast<int>(bytes % block_bytes)};
  std::array<MPI_Aint, 2> const offsets{0, bytes / block_bytes * block_bytes};
  std::array<MPI_Datatype, 2> const types{block, MPI_BYTE};
  ZEROTH_MPI(MPI_Type_create_struct(2, lengths.data(), offsets.data(), types.data(), &whole));
  ZEROTH_MPI(MPI_Type_free(&block));
  ZEROTH_MPI(MPI_Type_commit(&whole));
  return {1, whole};
}

}  // namespace zeroth::comm
