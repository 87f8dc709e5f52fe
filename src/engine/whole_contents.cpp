// SPDX-License-Identifier: Apache-2.0
#include "engine/whole_contents.hpp"

#include <string>
#include <vector>

#include "checkpoint/record_format.hpp"
#include "comm/gather_bytes.hpp"

namespace zeroth::engine {
namespace {

constexpr std::string_view of_save = "save";

}  // namespace

std::optional<checkpoint::Contents> gather_contents(checkpoint::Contents const& own, Exchange const& sharing,
                                                    Exchange const& whole) {
  bool const is_first = whole.rank() == 0;
  bool const says = sharing.rank() == 0 && !is_first;
  auto const texts = comm::gather_bytes({*whole.communicator, *whole.device, *whole.stream, of_save},
                                        says ? checkpoint::text_of_spaces(own) : std::string{}, 0);
  if (!is_first) {
    return std::nullopt;
  }
  auto contents = own;
  for (auto const& text : texts) {
    if (!text.empty()) {
      checkpoint::add_spaces_of_text(text, contents);
    }
  }
  checkpoint::place_states(contents);
  return contents;
}

}  // namespace zeroth::engine
