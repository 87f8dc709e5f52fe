// SPDX-License-Identifier: Apache-2.0
/// Lists whose elements have ids: types of their own, so that no number of one kind is taken for one of another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace zeroth {

/// An `enum class` of std::uint32_t without enumerators, whose values count something from 0.
template <class Id>
concept IdOf = std::is_enum_v<Id> && std::is_same_v<std::underlying_type_t<Id>, std::uint32_t>;

/// The number behind an id.
template <IdOf Id>
[[nodiscard]] constexpr std::uint32_t index_of(Id id) noexcept {
  return static_cast<std::uint32_t>(id);
}
/// The id of the element that is added next to what has `size` of them.
template <IdOf Id>
[[nodiscard]] constexpr Id id_at(std::size_t size) noexcept {
  return static_cast<Id>(static_cast<std::uint32_t>(size));
}
/// The first `count` ids, ascending. (Of std::views clang 14 cannot compile those that libstdc++ 12 has.)
template <IdOf Id>
class FirstIds {
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    constexpr Iterator() noexcept = default;
    constexpr explicit Iterator(std::uint32_t index) noexcept : index_{index} {}
    constexpr Id operator*() const noexcept { return static_cast<Id>(index_); }
    constexpr Iterator& operator++() noexcept { return ++index_, *this; }
    constexpr Iterator& operator--() noexcept { return --index_, *this; }
    constexpr Iterator operator++(int) noexcept { return Iterator{index_++}; }
    constexpr Iterator operator--(int) noexcept { return Iterator{index_--}; }
    constexpr bool operator==(Iterator const&) const noexcept = default;

   private:
    std::uint32_t index_ = 0;
  };

 public:
  /// Of ids 0 to count - 1.
  constexpr explicit FirstIds(std::size_t count) noexcept : count_{static_cast<std::uint32_t>(count)} {}
  [[nodiscard]] constexpr Iterator begin() const noexcept { return Iterator{0}; }     ///< Id 0.
  [[nodiscard]] constexpr Iterator end() const noexcept { return Iterator{count_}; }  ///< Behind the last.

 private:
  std::uint32_t count_;
};

/// A vector that is indexed by ids alone.
template <IdOf Id, class T>
class ById : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  /// The element with this id, which there is.
  [[nodiscard]] decltype(auto) operator[](Id id) { return std::vector<T>::operator[](index_of(id)); }
  /// The same.
  [[nodiscard]] decltype(auto) operator[](Id id) const { return std::vector<T>::operator[](index_of(id)); }
  [[nodiscard]] FirstIds<Id> ids() const noexcept {
    return FirstIds<Id>{this->size()};
  }                                                                              ///< Of all elements, ascending.
  [[nodiscard]] Id next_id() const noexcept { return id_at<Id>(this->size()); }  ///< Of what is appended next.
};

}  // namespace zeroth
