// SPDX-License-Identifier: Apache-2.0
/// Overlays one document with another.
#pragma once
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// Overwrites the values of `document` with those of `changes`, in whatever spelling each has them. Objects are merged
/// member by member; any other value is replaced as a whole. Added members have no line.
void overlay(Object& document, Object const& changes);

}  // namespace zeroth::config
