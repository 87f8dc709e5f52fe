// SPDX-License-Identifier: Apache-2.0
/// Runs code at the end of a scope, however it is left.
#pragma once

namespace zeroth::comm {

/// Calls `function` in its destructor.
template <class F>
class Finally {
 public:
  explicit Finally(F const& function) : function_{function} {}
  Finally(Finally const&) = delete;
  Finally& operator=(Finally const&) = delete;
  ~Finally() { function_(); }

 private:
  F function_;
};

}  // namespace zeroth::comm
