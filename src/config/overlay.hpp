// SPDX-License-Identifier: Apache-2.0
/// One document laid over another.
#pragma once
#include "zeroth/tool/config/document.hpp"

namespace zeroth::config {

/// What `changes` says takes the place of what `document` says, under whatever spelling either has it. Objects are
/// merged member by member; any other value is replaced whole. What comes from `changes` and was not there has no line.
void overlay(Object& document, Object const& changes);

}  // namespace zeroth::config
