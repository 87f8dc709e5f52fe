// SPDX-License-Identifier: Apache-2.0
/// Containers indexed by typed ids, so that ids of different kinds cannot be mixed up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace zeroth {

/// A scoped enumeration over std::uint32_t without enumerators, whose values count from 0.
template <class Id>
concept IdOf = std::is_enum_v<Id> && std::is_same_v<std::underlying_type_t<Id>, std::uint32_t>;

/// The number in an id.
template <IdOf Id>
[[nodiscard]] constexpr std::uint32_t index_of(Id id) noexcept {
  return static_cast<std::uint32_t>(id);
}
/// The id of the next element to be appended to a container of `size` elements.
template <IdOf Id>
[[nodiscard]] constexpr Id id_at(std::size_t size) noexcept {
  return static_cast<Id>(static_cast<std::uint32_t>(size));
}
/// The first `count` ids, ascending. (clang 14 cannot compile libstdc++ 12's std::views.)
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
  /// Holds ids 0 to count - 1.
  constexpr explicit FirstIds(std::size_t count) noexcept : count_{static_cast<std::uint32_t>(count)} {}
  [[nodiscard]] constexpr Iterator begin() const noexcept { return Iterator{0}; }     ///< Id 0.
  [[nodiscard]] constexpr Iterator end() const noexcept { return Iterator{count_}; }  ///< Past the last.

 private:
  std::uint32_t count_;
};

/// A vector that is indexed by ids only.
template <IdOf Id, class T>
class ById : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  /// The element with this id, which must exist.
  [[nodiscard]] decltype(auto) operator[](Id id) { return std::vector<T>::operator[](index_of(id)); }
  /// The element with this id, which must exist.
  [[nodiscard]] decltype(auto) operator[](Id id) const { return std::vector<T>::operator[](index_of(id)); }
  [[nodiscard]] FirstIds<Id> ids() const noexcept { return FirstIds<Id>{this->size()}; }  ///< All ids, ascending.
  /// The id of the next element to be appended.
  [[nodiscard]] Id next_id() const noexcept { return id_at<Id>(this->size()); }
};

}  // namespace zeroth
