// SPDX-License-Identifier: Apache-2.0
/// Finds the tensors in the inputs and outputs of a module.
#pragma once
#include <torch/torch.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace zeroth::torch_adapter::detail {

struct Ignore {
  void operator()(at::Tensor& /*tensor*/) const {}
};
template <class T>
concept Walks = requires(T& value, Ignore const& f) {
  value.each_tensor(f);
};
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, std::monostate> || std::is_pointer_v<T>;

/// Visits the tensors in a T. `known` is true if T's tensors can be found.
template <class T>
struct Tensors {
  static constexpr bool known = Plain<T> || Walks<T>;
  template <class F>
  static void each(T& value, F const& f) {
    if constexpr (Walks<T>) {
      value.each_tensor(f);
    }
  }
};
template <>
struct Tensors<at::Tensor> {
  static constexpr bool known = true;
  template <class F>
  static void each(at::Tensor& value, F const& f) {
    f(value);
  }
};
/// For anything that range-for accepts, such as a vector or an array.
template <class Range, class Element>
struct TensorsOfRange {
  static constexpr bool known = Tensors<Element>::known;
  template <class F>
  static void each(Range& values, F const& f) {
    for (auto& value : values) {
      Tensors<Element>::each(value, f);
    }
  }
};
template <class T>
struct Tensors<std::vector<T>> : TensorsOfRange<std::vector<T>, T> {};
template <class T, std::size_t count>
struct Tensors<std::array<T, count>> : TensorsOfRange<std::array<T, count>, T> {};
template <class T>
struct Tensors<std::optional<T>> {
  static constexpr bool known = Tensors<T>::known;
  template <class F>
  static void each(std::optional<T>& value, F const& f) {
    if (value) {
      Tensors<T>::each(*value, f);
    }
  }
};
template <class Map, class T>
struct TensorsOfMap {
  static constexpr bool known = Tensors<T>::known;
  template <class F>
  static void each(Map& values, F const& f) {
    for (auto& [key, value] : values) {
      Tensors<T>::each(value, f);
    }
  }
};
template <class Key, class T>
struct Tensors<std::map<Key, T>> : TensorsOfMap<std::map<Key, T>, T> {};
template <class Key, class T>
struct Tensors<std::unordered_map<Key, T>> : TensorsOfMap<std::unordered_map<Key, T>, T> {};
template <class... Ts>
struct Tensors<std::tuple<Ts...>> {
  static constexpr bool known = (Tensors<Ts>::known && ...);
  template <class F>
  static void each(std::tuple<Ts...>& values, F const& f) {
    std::apply([&](auto&... value) { (Tensors<std::remove_reference_t<decltype(value)>>::each(value, f), ...); },
               values);
  }
};
template <class A, class B>
struct Tensors<std::pair<A, B>> {
  static constexpr bool known = Tensors<A>::known && Tensors<B>::known;
  template <class F>
  static void each(std::pair<A, B>& values, F const& f) {
    Tensors<A>::each(values.first, f);
    Tensors<B>::each(values.second, f);
  }
};

}  // namespace zeroth::torch_adapter::detail
