// SPDX-License-Identifier: Apache-2.0
#include "zeroth/checkpoint/file_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/crossing.hpp"
#include "checkpoint/hashes.hpp"
#include "checkpoint/read_ahead.hpp"
#include "checkpoint/saved_hashes.hpp"
#include "checkpoint/unreadable.hpp"
#include "checkpoint/use_lock.hpp"
#include "core/block_file.hpp"
#include "core/large_pages.hpp"
#include "zeroth/core/error.hpp"
#include "zeroth/tool/config/document.hpp"
#include "zeroth/tool/core/utf8.hpp"

namespace zeroth::checkpoint {
namespace {

std::byte* allocate_blocks(std::int64_t bytes) {
  auto* const memory = std::aligned_alloc(static_cast<std::size_t>(block_bytes), static_cast<std::size_t>(bytes));
  if (memory == nullptr) {
    throw std::bad_alloc{};
  }
  prefer_large_pages({static_cast<std::byte*>(memory), static_cast<std::size_t>(bytes)});
  return static_cast<std::byte*>(memory);
}

/// Bytes per read: one half of the buffer is used while the other one is filled.
constexpr std::int64_t part_bytes = Reader::buffer_bytes / 2;

[[nodiscard]] std::int64_t end_of(Piece const& piece) noexcept { return piece.begin + piece.bytes; }

}  // namespace

Reader::Reader(std::filesystem::path folder, bool direct, std::span<std::byte> buffer)
    : folder_{std::move(folder)},
      lock_{std::make_unique<UseLock>(folder_, UseLock::By::reader)},
      direct_{direct},
      record_{(lock_->expect_free(), read_record(folder_))},
      own_buffer_{buffer.empty() ? allocate_blocks(buffer_bytes) : nullptr,
                  [](std::byte* memory) { std::free(memory); }},
      buffer_{buffer.empty() ? own_buffer_.get() : buffer.data()},
      saved_hashes_{std::make_unique<SavedHashes>()} {}

Reader::~Reader() = default;

std::string Reader::message(int place, std::string_view why) const {
  return fmt::format("checkpoint {}: {}: {}", folder_.string(), file_name(place), why);
}

InputFile const& Reader::open(int place) {
  if (open_place_ != place) {
    open_place_ = -1;
    open_ = std::make_unique<InputFile>(folder_ / file_name(place));
    open_place_ = place;
  }
  return *open_;
}

Reader::Checked Reader::look(int place) {
  auto const& input = open(place);
  auto const& contents = record_.contents;
  auto const expected = file_header(contents, place, record_.save_id);
  Checked result{.data_begin = std::ssize(expected), .wrong = {}};
  auto const table_bytes = hash_count(contents, place) * static_cast<std::int64_t>(sizeof(std::uint64_t));
  auto const bytes = result.data_begin + contents.data_bytes(place) + table_bytes;
  if (input.bytes() != bytes) {
    throw Unreadable{fmt::format("has {} bytes, but this checkpoint needs {}", input.bytes(), bytes)};
  }
  std::string header(expected.size(), '\0');
  input.read(0, std::as_writable_bytes(std::span{header}));
  if (header.find(record_.save_id) == std::string::npos && header != expected) {
    throw Unreadable{
        fmt::format("belongs to another save than {}, whose id is {}", record_name, escaped(record_.save_id))};
  }
  if (header != expected) {
    result.wrong =
        fmt::format("its header is damaged at byte {}", std::ranges::mismatch(header, expected).in1 - header.begin());
  }
  return result;
}

Reader::Checked const& Reader::checked(int place) {
  if (auto const found = checked_.find(place); found != checked_.end()) {
    return found->second;
  }
  auto file = look(place);
  if (!file.wrong.empty()) {
    throw Unreadable{file.wrong};
  }
  return checked_.emplace(place, std::move(file)).first->second;
}

void Reader::check_file(int place) {
  try {
    static_cast<void>(checked(place));
  } catch (Unreadable const& error) {
    throw_unreadable(message(place, error.what()), error);
  }
}

/// Reads bytes [begin, end) of the data and their saved hashes. `begin` is a multiple of hashed_bytes; `end` is one
/// too, or the end of the data.
void Reader::read_bytes(int place, Checked const& file, std::int64_t begin, std::int64_t end, std::byte* to,
                        Hashes& saved) {
  auto const& input = open(place);
  if (direct_) {
    open_->go_direct();
  }
  std::span const memory{to, static_cast<std::size_t>(whole_blocks(end - begin))};
  if (static_cast<std::int64_t>(input.read_some(file.data_begin + begin, memory)) < end - begin) {
    throw Unreadable{"has become shorter"};
  }
  auto const count = static_cast<std::size_t>((end - begin + hashed_bytes - 1) / hashed_bytes);
  saved_hashes_->read(input, place, file.data_begin + record_.contents.data_bytes(place), begin / hashed_bytes,
                      std::span{saved}.first(count));
}

/// The starts of the blocks just read that have a wrong hash.
std::vector<std::int64_t> Reader::damaged_in(Hashes const& saved, std::int64_t begin, std::int64_t end,
                                             std::byte const* bytes) {
  std::vector<std::int64_t> damaged;
  for (auto at = begin; at < end; at += hashed_bytes) {
    std::span const part{bytes + (at - begin), static_cast<std::size_t>(std::min(hashed_bytes, end - at))};
    if (xxh3(part) != saved[static_cast<std::size_t>((at - begin) / hashed_bytes)]) {
      damaged.push_back(at);
    }
  }
  return damaged;
}

void Reader::expect_undamaged(int place, Hashes const& saved, std::int64_t begin, std::int64_t end,
                              std::byte const* bytes) const {
  auto const& file = checked_.at(place);
  for (auto const at : damaged_in(saved, begin, end, bytes)) {
    auto const part_end = std::min(at + hashed_bytes, end);
    throw DamagedError{
        message(place, fmt::format("is damaged between bytes {} and {}: hash mismatch: {}", file.data_begin + at,
                                   file.data_begin + part_end, what_is_at(place, at, part_end)))};
  }
}

/// Reads the bytes into the buffer and verifies them, unless they are already there.
void Reader::read_checked(int place, std::int64_t begin, std::int64_t end) {
  if (buffered_.place == place && buffered_.begin == begin && end_of(buffered_) >= end) {
    return;
  }
  buffered_.place = -1;
  check_file(place);
  Hashes saved{};
  try {
    read_bytes(place, checked(place), begin, end, buffer_, saved);
  } catch (Unreadable const& error) {
    throw_unreadable(message(place, fmt::format("{}: {}", error.what(), what_is_at(place, begin, end))), error);
  }
  expect_undamaged(place, saved, begin, end, buffer_);
  buffered_ = {place, begin, end - begin};
}

/// Calls `take(part, bytes)` for every part, in order, after verifying its hashes. Reads the next part meanwhile.
void Reader::read_parts(std::span<Piece const> parts, std::function<void(Piece const&, std::byte const*)> const& take) {
  if (parts.empty()) {
    return;
  }
  if (parts.size() == 1) {
    read_checked(parts[0].place, parts[0].begin, end_of(parts[0]));
    return take(parts[0], buffer_);
  }
  buffered_.place = -1;
  for (auto const& part : parts) {
    check_file(part.place);  // before reading ahead, whose thread then uses the open file alone
  }
  std::array<Hashes, ReadAhead::parts_in_memory> saved{};
  auto const read = [&](std::size_t index, std::span<std::byte> memory) {
    auto const& part = parts[index];
    read_bytes(part.place, checked_.at(part.place), part.begin, end_of(part), memory.data(),
               saved[index % saved.size()]);
    return static_cast<std::size_t>(part.bytes);
  };
  ReadAhead ahead{parts.size(), {buffer_, static_cast<std::size_t>(buffer_bytes)}, read};
  for (std::size_t index = 0; index < parts.size(); ++index) {
    auto const& part = parts[index];
    std::span<std::byte const> bytes;
    try {
      bytes = ahead.next();
    } catch (Unreadable const& error) {
      auto const of = what_is_at(part.place, part.begin, end_of(part));
      throw_unreadable(message(part.place, fmt::format("{}: {}", error.what(), of)), error);
    }
    expect_undamaged(part.place, saved[index % saved.size()], part.begin, end_of(part), bytes.data());
    take(part, bytes.data());
  }
}

void Reader::read(std::span<Piece const> pieces, TakeBytes const& take) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::tuple{pieces[i].place, pieces[i].begin}; });
  auto const down = [](std::int64_t at) { return at / hashed_bytes * hashed_bytes; };
  auto const up = [&](std::int64_t at, std::int64_t bytes) { return std::min(down(at + hashed_bytes - 1), bytes); };
  std::vector<Piece> parts;
  for (std::size_t first = 0; first < order.size();) {
    auto const place = pieces[order[first]].place;
    auto const bytes = record_.contents.data_bytes(place);
    auto begin = down(pieces[order[first]].begin);
    auto end = up(end_of(pieces[order[first]]), bytes);
    for (++first;
         first < order.size() && pieces[order[first]].place == place && down(pieces[order[first]].begin) <= end;
         ++first) {
      end = std::max(end, up(end_of(pieces[order[first]]), bytes));
    }
    for (; begin < end; begin += part_bytes) {
      parts.push_back({place, begin, std::min(part_bytes, end - begin)});
    }
  }
  std::size_t first = 0;  // all pieces before it have been read
  read_parts(parts, [&](Piece const& part, std::byte const* bytes) {
    auto const is_before = [&](Piece const& piece) {
      return piece.place < part.place || (piece.place == part.place && end_of(piece) <= part.begin);
    };
    while (first < order.size() && is_before(pieces[order[first]])) {
      ++first;
    }
    for (auto each = first; each < order.size(); ++each) {
      auto const& piece = pieces[order[each]];
      if (piece.place != part.place || piece.begin >= end_of(part)) {
        break;
      }
      auto const from = std::max(piece.begin, part.begin);
      auto const count = std::min(end_of(piece), end_of(part)) - from;
      if (count > 0) {
        take(order[each], from - piece.begin, {bytes + (from - part.begin), static_cast<std::size_t>(count)});
      }
    }
  });
}

void Reader::read(std::span<Found const> parts, std::size_t state, std::int64_t first, std::span<std::byte> to) {
  auto const& contents = record_.contents;
  auto const of = [&](Found const& at) -> SavedState const& { return contents.spaces[at.space].states[state]; };
  auto const& param = contents.spaces[parts.front().space].params[parts.front().param];
  auto const size = bytes_of(of(parts.front()).dtype);
  auto const found =
      crossings(contents, parts, model::CutPart::all_of(param.whole_count()), first, std::ssize(to) / size);
  std::vector<Piece> pieces;
  std::vector<std::pair<Crossing const*, std::int64_t>> from;  // crossing, and index of the piece's first element
  for (auto const& crossing : found) {
    for (auto const& each : pieces_of(contents, crossing, of(crossing.at))) {
      pieces.push_back(each.piece);
      from.emplace_back(&crossing, each.first);
    }
  }
  read(pieces, [&](std::size_t index, std::int64_t offset, std::span<std::byte const> bytes) {
    auto const begin = from[index].second + offset / size;
    from[index].first->each_run(
        begin, std::ssize(bytes) / size, [&](std::int64_t in_saved, std::int64_t in_whole, std::int64_t count) {
          std::copy_n(bytes.data() + (in_saved - begin) * size, count * size, to.data() + (in_whole - first) * size);
        });
  });
}

std::vector<std::byte> Reader::rank_state(int place) {
  auto const& contents = record_.contents;
  auto const begin = contents.state_bytes(place);
  std::vector<std::byte> state(static_cast<std::size_t>(contents.data_bytes(place) - begin));
  Piece const piece{place, begin, std::ssize(state)};
  read({&piece, state.empty() ? std::size_t{0} : std::size_t{1}},
       [&](std::size_t, std::int64_t offset, std::span<std::byte const> bytes) {
         std::ranges::copy(bytes, state.begin() + offset);
       });
  return state;
}

void Reader::add_damage_of_data(int place, Checked const& file, std::vector<Damage>& all,
                                std::function<void(std::int64_t bytes)> const& on_read) {
  auto const add = [&](std::int64_t begin, std::int64_t end, std::string why) {
    bool const goes_on = !all.empty() && all.back().end == file.data_begin + begin && all.back().why == why;
    if (!goes_on) {
      all.push_back({std::move(why), file.data_begin + begin, 0, {}});
    }
    all.back().end = file.data_begin + end;
  };
  buffered_.place = -1;
  Hashes saved{};
  auto const bytes = record_.contents.data_bytes(place);
  for (std::int64_t begin = 0; begin < bytes; begin += buffer_bytes) {
    auto const end = std::min(begin + buffer_bytes, bytes);
    try {
      read_bytes(place, file, begin, end, buffer_, saved);
      for (auto const at : damaged_in(saved, begin, end, buffer_)) {
        add(at, std::min(at + hashed_bytes, end), "is damaged: hash mismatch");
      }
    } catch (Unreadable const& error) {
      add(begin, end, error.what());
    }
    if (on_read) {
      on_read(end - begin);
    }
  }
  for (auto& each : all) {
    if (each.end > file.data_begin) {
      each.extents =
          extents_at(record_.contents, place, each.begin - file.data_begin, each.end - file.data_begin, most_extents);
    }
  }
}

std::vector<Damage> Reader::damage(int place, bool with_data, std::function<void(std::int64_t bytes)> const& on_read) {
  std::vector<Damage> all;
  open_place_ = -1;  // open the file anew: direct I/O cannot read headers
  saved_hashes_->forget();
  try {
    auto const file = look(place);
    if (!file.wrong.empty()) {
      all.push_back({file.wrong, 0, file.data_begin, {}});
    }
    if (with_data) {
      add_damage_of_data(place, file, all, on_read);
    }
  } catch (Unreadable const& error) {
    all.push_back({error.what(), 0, 0, {}});
  }
  return all;
}

std::string Reader::what_is_at(int place, std::int64_t begin, std::int64_t end) const {
  constexpr std::size_t most = 4;
  auto const extents = extents_at(record_.contents, place, begin, end, most);
  std::string text;
  for (auto const& [state, param, first, last, part] : extents.listed) {
    text += text.empty() ? "" : ", ";
    if (param.empty()) {
      text += fmt::format("{}, bytes [{}, {})", state, first, last);
      continue;
    }
    auto const of_part = part.of == 1 ? std::string{} : fmt::format(" of part {} of {}", part.index, part.of);
    text += fmt::format("{} of {} elements [{}, {}){}", escaped(state), config::in_quotes(param), first, last, of_part);
  }
  auto const more = extents.count - std::ssize(extents.listed);
  return extents.count == 0 ? "padding" : more > 0 ? fmt::format("{} and {} more", text, more) : text;
}

}  // namespace zeroth::checkpoint
