// SPDX-License-Identifier: Apache-2.0
/// The arithmetic of every rule of the library for one element, shared by the CPU's loops and the GPU's kernels. For a
/// rule R there are
///
///     factors_of(R const&, StepScalars const&, Segment const&)   what all elements of a segment share
///     update_element(Factors const&, float gradient, float& master, float& state...)   with R::state_count states
#pragma once
#include "adagrad_element.hpp"
#include "adam_element.hpp"
#include "lamb_element.hpp"
#include "lion_element.hpp"
#include "muon_element.hpp"
#include "one_bit_adam_element.hpp"
#include "rmsprop_element.hpp"
#include "sgd_element.hpp"

namespace zeroth::optim {

/// Whether update_element() of this rule changes states. Those of LAMB and Muon have changed before.
template <class Rule>
inline constexpr bool updates_states = true;
template <>
inline constexpr bool updates_states<Lamb> = false;
template <>
inline constexpr bool updates_states<Muon> = false;

}  // namespace zeroth::optim
