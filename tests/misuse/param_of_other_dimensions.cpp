// SPDX-License-Identifier: Apache-2.0
// expect: conversion from 'Param<2>' to non-scalar type '(zeroth::)?Param<1>'
#include "layer.hpp"

void use(zeroth::Model& model, zeroth::Unit unit) {
#ifdef MISUSE
  zeroth::Param<1> const bias = model.param(unit, "bias", {64, 64}, zeroth::Constant{0});
#else
  zeroth::Param<1> const bias = model.param(unit, "bias", {64}, zeroth::Constant{0});
#endif
  static_cast<void>(bias);
}
