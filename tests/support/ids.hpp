// SPDX-License-Identifier: Apache-2.0
/// Ids in tests, written as numbers: 0_unit, 1_param, 2_flat.
#pragma once
#include "shard/layout.hpp"
#include "zeroth/model/model.hpp"

namespace zeroth::testing {

constexpr UnitId operator""_unit(unsigned long long index) { return id_at<UnitId>(index); }
constexpr ParamId operator""_param(unsigned long long index) { return id_at<ParamId>(index); }
constexpr shard::FlatId operator""_flat(unsigned long long index) { return id_at<shard::FlatId>(index); }

}  // namespace zeroth::testing
