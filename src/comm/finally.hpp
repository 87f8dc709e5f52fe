// SPDX-License-Identifier: Apache-2.0
/// Work for the end of a scope, however it ends.
#pragma once

namespace zeroth::comm {

/// Calls `function` when it ends.
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
