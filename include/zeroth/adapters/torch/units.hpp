// SPDX-License-Identifier: Apache-2.0
/// Chooses the submodules of a libtorch module that are units. The parameters of a unit are gathered and reduced
/// together.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zeroth/core/error.hpp"

namespace zeroth::torch_adapter {

/// A rule that selects submodules; FSDP calls it an auto-wrap policy.
class UnitPolicy {
 public:
  /// Selects by name, as in named_modules(): "embed", "layers.0". A `*` matches any characters except a dot: "layers.*"
  /// is every element of a ModuleList.
  UnitPolicy(char const* pattern) : UnitPolicy{std::string{pattern}} {}  // NOLINT(google-explicit-constructor)
  /// Selects by name.
  UnitPolicy(std::string pattern)  // NOLINT(google-explicit-constructor)
      : what_{"\"" + pattern + "\""}, picks_{[pattern](std::string const& name, ::torch::nn::Module const&) {
          return matches(pattern, name);
        }} {}
  /// Selects by a predicate of name and module; `what` describes it in messages.
  UnitPolicy(std::string what, std::function<bool(std::string const&, ::torch::nn::Module const&)> picks)
      : what_{std::move(what)}, picks_{std::move(picks)} {}

  /// Whether it selects this module.
  [[nodiscard]] bool operator()(std::string const& name, ::torch::nn::Module const& module) const {
    return picks_(name, module);
  }
  [[nodiscard]] std::string const& what() const noexcept { return what_; }  ///< Describes it in messages.

 private:
  [[nodiscard]] static bool matches(std::string_view pattern, std::string_view name) {
    if (pattern.empty()) {
      return name.empty();
    }
    if (pattern.front() != '*') {
      return !name.empty() && pattern.front() == name.front() && matches(pattern.substr(1), name.substr(1));
    }
    for (std::size_t taken = 0;; ++taken) {
      if (matches(pattern.substr(1), name.substr(taken))) {
        return true;
      }
      if (taken == name.size() || name[taken] == '.') {
        return false;
      }
    }
  }

  std::string what_;
  std::function<bool(std::string const&, ::torch::nn::Module const&)> picks_;
};

/// Selects every submodule of type Impl, like FSDP's ModuleWrapPolicy: `every<BlockImpl>()`.
template <class Impl>
[[nodiscard]] UnitPolicy every() {
  return {"every " + c10::demangle(typeid(Impl).name()), [](std::string const&, ::torch::nn::Module const& module) {
            return dynamic_cast<Impl const*>(&module) != nullptr;
          }};
}

/// Selects every submodule with at least this many elements that has no child with as many: FSDP's
/// size_based_auto_wrap_policy.
[[nodiscard]] inline UnitPolicy at_least(std::int64_t elements) {
  auto const count_of = [](::torch::nn::Module const& module) {
    std::int64_t count = 0;
    for (auto const& parameter : module.parameters()) {
      count += parameter.numel();
    }
    return count;
  };
  return {"at least " + std::to_string(elements) + " elements",
          [count_of, elements](std::string const&, ::torch::nn::Module const& module) {
            return count_of(module) >= elements && std::ranges::none_of(module.children(), [&](auto const& child) {
                     return count_of(*child) >= elements;
                   });
          }};
}

/// A submodule that is a unit.
struct ChosenUnit {
  std::string name;                             ///< Its name in named_modules().
  std::shared_ptr<::torch::nn::Module> module;  ///< The module.
};

namespace detail {

/// Marks modules that ZEROTH_TORCH_UNIT holds.
class Marked {
 public:
  Marked() = default;
  Marked(Marked const&) = default;
  Marked& operator=(Marked const&) = default;
  virtual ~Marked() = default;
};

/// Whether `inner` is a part of `outer`, by their names. The root, "", contains all others.
[[nodiscard]] inline bool is_within(std::string_view outer, std::string_view inner) noexcept {
  return outer != inner &&
         (outer.empty() || (inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.'));
}

/// All submodules by name, in order of registration. A module that is registered twice has its first name.
[[nodiscard]] inline std::vector<ChosenUnit> submodules(::torch::nn::Module const& root) {
  std::vector<ChosenUnit> found;
  for (auto const& item : root.named_modules({}, false)) {
    if (std::ranges::find(found, item.value(), &ChosenUnit::module) == found.end()) {
      found.push_back({item.key(), item.value()});
    }
  }
  return found;
}

[[nodiscard]] inline std::string names_of(std::vector<ChosenUnit> const& modules) {
  constexpr std::size_t shown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, modules.size()); ++i) {
    text += (i == 0 ? "" : ", ") + modules[i].name;
  }
  return modules.size() > shown ? text + " and " + std::to_string(modules.size() - shown) + " more" : text;
}

/// The given order, except that a unit comes before the units inside it.
[[nodiscard]] inline std::vector<ChosenUnit> outer_first(std::vector<ChosenUnit> const& chosen) {
  std::vector<ChosenUnit> ordered;
  auto const add = [&ordered](ChosenUnit const& unit) {
    if (std::ranges::find(ordered, unit.module, &ChosenUnit::module) == ordered.end()) {
      ordered.push_back(unit);
    }
  };
  for (auto const& unit : chosen) {
    std::vector<ChosenUnit> around;
    std::ranges::copy_if(chosen, std::back_inserter(around),
                         [&](auto const& other) { return is_within(other.name, unit.name); });
    std::ranges::sort(around, {}, [](auto const& other) { return other.name.size(); });
    std::ranges::for_each(around, add);
    add(unit);
  }
  return ordered;
}

}  // namespace detail

/// Returns the submodules of `root` that `policies` select, in the order of the policies, then of registration; that
/// should be the order of forward. The module's source needs no change. Units may be nested. Parameters in no unit
/// belong to the root, which is then a unit as well; without policies it holds all of them. Throws ContractError,
/// listing the submodules, if a policy selects none. Not collective.
[[nodiscard]] inline std::vector<ChosenUnit> units(::torch::nn::Module const& root,
                                                   std::vector<UnitPolicy> const& policies) {
  auto const all = detail::submodules(root);
  std::vector<ChosenUnit> chosen;
  for (auto const& policy : policies) {
    bool picked = false;
    for (auto const& unit : all) {
      if (policy(unit.name, *unit.module)) {
        picked = true;
        if (std::ranges::find(chosen, unit.module, &ChosenUnit::module) == chosen.end()) {
          chosen.push_back(unit);
        }
      }
    }
    ZEROTH_EXPECTS(picked, "units(): " + policy.what() + " picks no submodule; the submodules are: " +
                               (all.empty() ? "none" : detail::names_of(all)));
  }
  return detail::outer_first(chosen);
}

}  // namespace zeroth::torch_adapter
