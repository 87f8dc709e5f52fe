// SPDX-License-Identifier: Apache-2.0
/// Common code of the cases: one layer, as in a program.
#pragma once
#include <utility>
#include <zeroth/adapters/eigen.hpp>
#include <zeroth/zeroth.hpp>

struct Layer {
  zeroth::Unit unit;
  zeroth::Param<2> weight;
  zeroth::Param<1> bias;
};
using Engine = zeroth::Engine<float>;
using MicroStep = zeroth::MicroStep<float, float>;
using Matrix = zeroth::Matrix<float>;
