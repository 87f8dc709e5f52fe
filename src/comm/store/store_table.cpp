// SPDX-License-Identifier: Apache-2.0
#include "comm/store/store_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/describe.hpp"

namespace zeroth::comm {
namespace {

/// The total size of keys: enough for a hundred thousand ids.
constexpr std::size_t most_held_bytes = std::size_t{64} << 20;
constexpr std::size_t most_ranks_named = 8;

std::string joined_words(std::vector<std::string> const& words) {
  if (words.size() <= 1) {
    return words.empty() ? std::string{} : words.front();
  }
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

std::string describe_ranks(std::vector<int> const& ranks, Roster const& roster) {
  std::vector<std::string> words;
  for (int const rank : ranks) {
    if (words.size() == most_ranks_named && ranks.size() > most_ranks_named) {
      words.push_back(fmt::format("{} more", ranks.size() - most_ranks_named));
      break;
    }
    auto const state = roster[static_cast<std::size_t>(rank)];
    words.push_back(fmt::format("{}{}", rank,
                                state == RankState::absent ? " (has not joined)"
                                : state == RankState::left ? " (has left)"
                                                           : ""));
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", joined_words(words));
}

std::shared_ptr<std::string const> encode_values(std::vector<std::string> const& values) {
  Body body;
  body.number(values.size());
  for (auto const& value : values) {
    body.text(value);
  }
  return std::make_shared<std::string const>(body.take());
}

std::shared_ptr<std::string const> encode_problem(Problem problem, std::string const& text) {
  return std::make_shared<std::string const>(
      Body{}.number(static_cast<std::uint64_t>(problem)).text(text.substr(0, most_value_bytes)).take());
}

void StoreTable::set(Call const& call, std::string const& key, std::string value, std::uint64_t reads) {
  if (auto const found = keys_.find(key); found != keys_.end()) {
    refuse(call, Problem::contract,
           fmt::format("rank {} sets the key '{}', which rank {} has set already: a key is set once", call.rank, key,
                       found->second.rank));
    return;
  }
  std::size_t const bytes = key.size() + value.size();
  if (held_bytes_ + bytes > most_held_bytes) {
    refuse(call, Problem::contract,
           fmt::format("the store holds {} bytes already, of {} that it may: the key '{}' of {} bytes does not fit",
                       held_bytes_, most_held_bytes, key, bytes));
    return;
  }
  held_bytes_ += bytes;
  keys_.emplace(key, Key{std::move(value), call.rank, reads});
  reply(call, Kind::answer, encode_values({}));
  std::erase_if(gets_, [&](WaitingGet const& each) {
    auto const found = each.key == key ? keys_.find(key) : keys_.end();
    bool const is_there = found != keys_.end();
    if (is_there) {
      read(each.call, found);
    }
    return is_there;
  });
}

void StoreTable::read(Call const& call, Keys::iterator key) {
  auto& [name, held] = *key;
  reply(call, Kind::answer, encode_values({held.value}));
  if (held.reads_left > 0 && --held.reads_left == 0) {
    held_bytes_ -= name.size() + held.value.size();
    keys_.erase(key);
  }
}

void StoreTable::get(Call const& call, std::string const& key, Wait const& wait) {
  if (auto const found = keys_.find(key); found != keys_.end()) {
    return read(call, found);
  }
  gets_.push_back({call, key, wait});
}

void StoreTable::gather(Call const& call, std::string const& name, std::string value, Wait const& wait) {
  auto& parts = gathers_[name];
  if (!parts.try_emplace(call.rank, Part{call, std::move(value), wait}).second) {
    refuse(call, Problem::contract,
           fmt::format("rank {} joins the gather '{}' twice: another thread of it is still there", call.rank, name));
    return;
  }
  if (parts.size() == roster_->size()) {
    complete(parts);
    gathers_.erase(name);
    return;
  }
  auto missing = missing_in(parts);
  std::erase_if(missing, [&](int rank) { return (*roster_)[static_cast<std::size_t>(rank)] != RankState::left; });
  if (!missing.empty()) {
    refuse(call, Problem::peer, fmt::format("the gather '{}' needs {}", name, describe_ranks(missing, *roster_)));
    parts.erase(call.rank);
    if (parts.empty()) {
      gathers_.erase(name);
    }
  }
}

void StoreTable::key_value(Call const& call, std::string_view bytes, Clock::time_point now) {
  KeyValueCall decoded;
  try {
    decoded = decode_call(bytes);
  } catch (std::runtime_error const& error) {
    throw BadFrame{error.what()};
  }
  auto const ticket = ++last_ticket_;
  waiting_.emplace(ticket, call);
  if (auto answer = key_values_.call(decoded, ticket, now)) {
    key_values_.answers.emplace_back(ticket, std::move(*answer));
  }
  answer_key_values();
}

void StoreTable::answer_key_values() {
  for (auto const& [ticket, answer] : key_values_.answers) {
    auto const call = waiting_.extract(ticket);
    if (!call.empty()) {  // otherwise the rank has left
      reply(call.mapped(), Kind::answer, encode_values({encode(answer)}));
    }
  }
  key_values_.answers.clear();
}

void StoreTable::leave(int rank) {
  std::erase_if(waiting_, [rank](auto const& each) { return each.second.rank == rank; });
  std::erase_if(gets_, [&](WaitingGet const& each) { return each.call.rank == rank; });
  for (auto& [name, parts] : gathers_) {
    parts.erase(rank);
    for (auto const& [other, part] : parts) {
      refuse(part.call, Problem::peer, fmt::format("the gather '{}' needs {}", name, describe_ranks({rank}, *roster_)));
    }
    parts.clear();
  }
  std::erase_if(gathers_, [](auto const& each) { return each.second.empty(); });
}

void StoreTable::expire(Clock::time_point now) {
  key_values_.expire(now);
  answer_key_values();
  std::erase_if(gets_, [&](WaitingGet const& each) {
    if (each.wait.deadline > now) {
      return false;
    }
    std::vector<int> absent;
    for (std::size_t rank = 0; rank < roster_->size(); ++rank) {
      if ((*roster_)[rank] != RankState::joined) {
        absent.push_back(static_cast<int>(rank));
      }
    }
    refuse(each.call, Problem::late,
           fmt::format("no rank set the key '{}' within {}{}", each.key, describe(now - each.wait.begun),
                       absent.empty() ? "" : "; absent: " + describe_ranks(absent, *roster_)));
    return true;
  });
  // A rank that gives up ends the gather for all: without it the others cannot complete it either, and would name it
  // together with the ranks at fault.
  std::erase_if(gathers_, [&](auto const& gather) {
    auto const& [name, parts] = gather;
    if (std::none_of(parts.begin(), parts.end(), [&](auto const& each) { return each.second.wait.deadline <= now; })) {
      return false;
    }
    auto const missing = describe_ranks(missing_in(parts), *roster_);
    for (auto const& [rank, part] : parts) {
      refuse(part.call, Problem::late,
             fmt::format("the gather '{}' waited {} for {}", name, describe(now - part.wait.begun), missing));
    }
    return true;
  });
}

Clock::time_point StoreTable::next_deadline() const noexcept {
  auto next = key_values_.next_deadline();
  for (auto const& each : gets_) {
    next = std::min(next, each.wait.deadline);
  }
  for (auto const& [name, parts] : gathers_) {
    for (auto const& [rank, part] : parts) {
      next = std::min(next, part.wait.deadline);
    }
  }
  return next;
}

void StoreTable::reply(Call const& call, Kind kind, std::shared_ptr<std::string const> body) {
  replies.push_back({call.rank, call.tag, kind, std::move(body)});
}

void StoreTable::refuse(Call const& call, Problem problem, std::string const& text) {
  reply(call, Kind::problem, encode_problem(problem, text));
}

void StoreTable::complete(Parts const& parts) {
  std::vector<std::string> values;
  for (auto const& [rank, part] : parts) {
    values.push_back(part.value);
  }
  auto const body = encode_values(values);
  for (auto const& [rank, part] : parts) {
    reply(part.call, Kind::answer, body);
  }
}

std::vector<int> StoreTable::missing_in(Parts const& parts) const {
  std::vector<int> missing;
  for (int rank = 0; rank < static_cast<int>(roster_->size()); ++rank) {
    if (!parts.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

}  // namespace zeroth::comm
