// SPDX-License-Identifier: Apache-2.0
#include "comm/key_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace zeroth::comm {
namespace {

constexpr std::size_t most_table_bytes = std::size_t{64} << 20;

// ---- bytes: numbers as in this process's memory, texts after their length. Ranks run the same program. -------------

class CallWriter {
 public:
  template <class T>
  CallWriter& number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<char const*>(&value), sizeof value);
    return *this;
  }
  CallWriter& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class CallReader {
 public:
  explicit CallReader(std::string_view bytes) : rest_{bytes} {}
  template <class T>
  T number() {
    T value{};
    auto const part = take(sizeof value);
    std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string{take(number<std::uint32_t>())}; }

 private:
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) {
      throw std::runtime_error{"a call of the key-value store that ends too early"};
    }
    auto const part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }
  std::string_view rest_;
};

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional{value} : std::nullopt;
}

}  // namespace

std::string encode(KeyValueCall const& call) {
  return CallWriter{}
      .number(call.action)
      .number(call.space)
      .text(call.key)
      .text(call.value)
      .text(call.expected)
      .number(static_cast<std::int64_t>(call.wait.count()))
      .take();
}

KeyValueCall decode_call(std::string_view bytes) {
  CallReader reader{bytes};
  KeyValueCall call;
  auto const action = reader.number<std::uint8_t>();
  auto const space = reader.number<std::uint8_t>();
  if (action > static_cast<std::uint8_t>(KeyValueCall::Action::meet) ||
      space > static_cast<std::uint8_t>(KeySpace::library)) {
    throw std::runtime_error{"an unknown call of the key-value store"};
  }
  call.action = static_cast<KeyValueCall::Action>(action);
  call.space = static_cast<KeySpace>(space);
  call.key = reader.text();
  call.value = reader.text();
  call.expected = reader.text();
  call.wait = std::chrono::milliseconds{reader.number<std::int64_t>()};
  return call;
}

std::string encode(KeyValueAnswer const& answer) {
  return CallWriter{}.number(answer.found).text(answer.value).text(answer.problem).take();
}

KeyValueAnswer decode_answer(std::string_view bytes) {
  CallReader reader{bytes};
  KeyValueAnswer answer;
  answer.found = reader.number<std::uint8_t>() != 0;
  answer.value = reader.text();
  answer.problem = reader.text();
  return answer;
}

// ---- the table ------------------------------------------------------------------------------------------------------

std::optional<KeyValueAnswer> KeyValueTable::call(KeyValueCall const& call, Ticket ticket, Clock::time_point now) {
  auto const key = (call.space == KeySpace::program ? "p" : "l") + call.key;
  switch (call.action) {
    case KeyValueCall::Action::set: return KeyValueAnswer{true, {}, set(key, call.value)};
    case KeyValueCall::Action::add: return add(key, call.value);
    case KeyValueCall::Action::compare_set: return compare_set(key, call);
    case KeyValueCall::Action::remove: return remove(key);
    case KeyValueCall::Action::meet:
      if (meet(key, call.value)) {
        return KeyValueAnswer{true, {}, {}};
      }
      break;
    case KeyValueCall::Action::get:
      if (auto const found = values_.find(key); found != values_.end()) {
        return KeyValueAnswer{true, found->second, {}};
      }
      break;
  }
  if (call.wait.count() <= 0) {
    return KeyValueAnswer{};
  }
  waiting_.push_back({ticket, key, now + call.wait, call.action == KeyValueCall::Action::meet});
  return std::nullopt;
}

bool KeyValueTable::meet(std::string const& key, std::string const& count) {
  auto const waits = [&](Waiting const& each) { return each.meets && each.key == key; };
  if (std::ranges::count_if(waiting_, waits) + 1 < integer_in(count).value_or(1)) {
    return false;
  }
  std::erase_if(waiting_, [&](Waiting const& each) {
    if (waits(each)) {
      answers.emplace_back(each.ticket, KeyValueAnswer{true, {}, {}});
    }
    return waits(each);
  });
  return true;
}

std::string KeyValueTable::set(std::string const& key, std::string value) {
  auto const found = values_.find(key);
  std::size_t const before = found == values_.end() ? 0 : key.size() + found->second.size();
  std::size_t const bytes = key.size() + value.size();
  if (held_bytes_ - before + bytes > most_table_bytes) {
    return fmt::format("the store holds {} bytes already, of {} that it may: the key '{}' of {} bytes does not fit",
                       held_bytes_, most_table_bytes, key.substr(1), bytes);
  }
  held_bytes_ += bytes - before;
  std::erase_if(waiting_, [&](Waiting const& each) {
    bool const waits = !each.meets && each.key == key;
    if (waits) {
      answers.emplace_back(each.ticket, KeyValueAnswer{true, value, {}});
    }
    return waits;
  });
  values_.insert_or_assign(key, std::move(value));
  return {};
}

KeyValueAnswer KeyValueTable::add(std::string const& key, std::string const& amount) {
  auto const found = values_.find(key);
  auto const before = found == values_.end() ? std::optional<std::int64_t>{0} : integer_in(found->second);
  if (!before) {
    return {true,
            {},
            fmt::format("add to the key '{}', whose value '{}' is not an integer", key.substr(1),
                        found->second.substr(0, 50))};
  }
  auto const sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(*before) +
                                             static_cast<std::uint64_t>(integer_in(amount).value_or(0)));
  auto text = fmt::format("{}", sum);
  auto problem = set(key, text);
  return {true, std::move(text), std::move(problem)};
}

KeyValueAnswer KeyValueTable::compare_set(std::string const& key, KeyValueCall const& call) {
  auto const found = values_.find(key);
  auto const before = found == values_.end() ? std::string{} : found->second;
  if (before != call.expected) {
    return {found != values_.end(), before, {}};
  }
  auto problem = set(key, call.value);
  return {true, call.value, std::move(problem)};
}

KeyValueAnswer KeyValueTable::remove(std::string const& key) {
  auto const found = values_.find(key);
  if (found == values_.end()) {
    return {};
  }
  held_bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return {true, {}, {}};
}

void KeyValueTable::expire(Clock::time_point now) {
  std::erase_if(waiting_, [&](Waiting const& each) {
    bool const is_late = each.deadline <= now;
    if (is_late) {
      answers.emplace_back(each.ticket, KeyValueAnswer{});
    }
    return is_late;
  });
}

Clock::time_point KeyValueTable::next_deadline() const noexcept {
  auto next = Clock::time_point::max();
  for (auto const& each : waiting_) {
    next = std::min(next, each.deadline);
  }
  return next;
}

}  // namespace zeroth::comm
