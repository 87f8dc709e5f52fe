// SPDX-License-Identifier: Apache-2.0
/// Any libtorch module under Zeroth's stages: docs/torch.md. Needs libtorch, which the library does not link: link
/// zeroth::torch, or what find_package(Torch) finds.
///
/// A module's parameters stay its own tensors. What changes is what their storages point to: the engine's memory inside
/// passes, and nothing outside of them. Which units are open, torch/runtime.hpp decides from what libtorch is about to
/// read.
#pragma once
#include "zeroth/adapters/torch/holder.hpp"
#include "zeroth/adapters/torch/launch.hpp"
#include "zeroth/adapters/torch/sync_batch_norm.hpp"
#include "zeroth/adapters/torch/trainer.hpp"
#include "zeroth/adapters/torch/units.hpp"
