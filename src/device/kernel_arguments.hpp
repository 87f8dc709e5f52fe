// SPDX-License-Identifier: Apache-2.0
/// Argument checks that the kernels of every device share. Throw ContractError.
#pragma once
#include "device/kernels.hpp"

namespace zeroth::device {

void expect_bytes(char const* call, std::int64_t bytes);
void expect_convert(Dtype destination_dtype, Dtype source_dtype, std::int64_t count);
void expect_reduce_epilogue(ReduceEpilogue const& args);
void expect_encode(Encode const& args);
void expect_quantise(Quantise const& args);
void expect_fold_received(FoldReceived const& args);
void expect_update(optim::UpdateArgs const& args);
void expect_update(HostUpdate const& update);
void expect_move_moments(MoveMoments const& args);
void expect_direction(optim::DirectionArgs const& args);
void expect_orthogonalise(optim::OrthogonalArgs const& args);

}  // namespace zeroth::device
