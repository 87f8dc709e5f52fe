// SPDX-License-Identifier: Apache-2.0
/// An ActivationStore returns the inputs that were stored, for any order and disk, and rejects misuse.
#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/activation_chain.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/thrown.hpp"

namespace zeroth::testing {
namespace {

using Catch::Contains;

/// Runs `use(engine, chain)` on one rank with a store's stage file. Returns the error.
template <class F>
std::string with_engine(Config const& config, F const& use) {
  return messages_of(run_job(1, [&](Job& job) {
    Chain const chain;
    Engine<float> engine{job, chain.model, config};
    use(engine, chain);
    engine.finish();
  }));
}

std::vector<float> values(std::size_t number) {
  std::vector<float> all(static_cast<std::size_t>(Chain::width));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<float>(number * 10'000 + i);
  }
  return all;
}

std::vector<std::vector<float>> losses_and_weights(int ranks, Config const& config, bool stores, int slots) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(ranks));
  auto const outcome = run_job(ranks, [&](Job& job) {
    Chain const chain;
    Engine<float> engine{job, chain.model, config};
    ActivationPolicy const policy{config, chain.model};
    std::optional<ActivationStore> store;
    if (stores) {
      store.emplace(engine, ActivationStoreOptions{.bytes = Chain::length * Chain::input_bytes, .slots = slots});
    }
    auto& mine = result[static_cast<std::size_t>(job.rank())];
    for (auto const& report : train_chain(engine, chain, policy, store ? &*store : nullptr, 3)) {
      mine.insert(mine.end(), {report.loss, report.grad_norm});
      expect(report.activation_ms >= 0 && report.activation_ms <= report.step_ms, "waits are part of a step");
    }
    for (auto const& param : chain.params) {
      std::vector<float> weights(static_cast<std::size_t>(Chain::width));
      engine.read(param, weights);
      mine.insert(mine.end(), weights.begin(), weights.end());
    }
    expect(engine.peak() == engine.planned(), "the store counts as memory of the engine");
  });
  CHECK(messages_of(outcome) == "");
  return result;
}

}  // namespace

TEST_CASE("training has the same bits whichever inputs are in a store, at every stage") {
  Folder const folder;
  auto const expected = losses_and_weights(2, chain_config(0, folder.path()), false, 0);
  for (int const stage : {0, 1, 2, 3}) {
    for (auto const* const units : {R"("all")", R"("every 2")", R"(["unit1"])", R"(["unit0", "unit4", "unit5"])"}) {
      for (int const slots : {1, 2, 3, 8}) {
        INFO(stage << ' ' << units << ' ' << slots);
        CHECK((losses_and_weights(2, chain_config(stage, folder.path(), units), true, slots) == expected));
      }
    }
  }
  CHECK(folder.contents().empty());
}

TEST_CASE("a store has the memory and the file that its options say, without a name") {
  Folder const folder;
  CHECK(with_engine(chain_config(0, folder.path()), [&](Engine<float>& engine, Chain const&) {
          ActivationStore const store{engine, {.bytes = 5 * Chain::input_bytes + 17, .slots = 3}};
          expect(store.room() == 5, "room");
          expect(store.slots() == 3, "slots");
          expect(store.memory_bytes() == 3 * 8192, "memory");
          expect(store.stored_bytes() == 5 * 8192, "file");
          expect(store.bytes_taken() >= 5 * 8192 && store.bytes_taken() <= 5 * 8192 + (1 << 16), "disk");
          expect(folder.contents().empty(), "the file has a name");
          ActivationStore const small{engine, {.bytes = 1000, .input_bytes = 100}};
          expect(small.room() == 10 && small.stored_bytes() == 10 * 4096 && small.slots() == 2, "small inputs");
        }) == "");
  CHECK(folder.contents().empty());
}

TEST_CASE("a store of the planned inputs has the planned memory and file, and moves the planned bytes") {
  Folder const folder;
  auto const config = chain_config(0, folder.path(), GENERATE(R"("all")", R"("every 2")"));
  CHECK(with_engine(config, [&](Engine<float>& engine, Chain const& chain) {
          auto const planned = plan(chain.model, config, 1).activations;
          expect(planned.offloaded >= 2, "inputs wait");
          expect(planned.input_bytes == Chain::input_bytes, "bytes of an input");
          ActivationStore store{engine, {.bytes = planned.offloaded * planned.input_bytes}};
          expect(store.memory_bytes() == planned.memory_bytes, "memory");
          expect(store.stored_bytes() == planned.stored_bytes, "file");
          train_chain(engine, chain, {config, chain.model}, &store, 3);
          expect(store.written_bytes() == 3 * planned.written_bytes, "written");
          expect(store.read_bytes() == 3 * planned.read_bytes, "read");
        }) == "");
}

TEST_CASE("what comes out of a store is what went in, in any order") {
  Folder const folder;
  CHECK(with_engine(chain_config(0, folder.path()), [&](Engine<float>& engine, Chain const& chain) {
          std::mt19937 random{5};
          for (int slots = 1; slots <= 4; ++slots) {
            ActivationStore store{engine, {.bytes = 7 * Chain::input_bytes, .slots = slots}};
            std::deque<std::pair<std::size_t, ActivationStore::Kept>> held;
            std::vector<float> out(static_cast<std::size_t>(Chain::width));
            std::size_t number = 0;
            int fetched = 0;
            for (int i = 0; i < 600; ++i) {
              auto const what = random() % 4;
              if (what <= 1 && std::ssize(held) < store.room() && fetched < slots) {
                auto in = values(++number);
                auto const bytes = random() % 3 == 0 ? std::int64_t{4} : Chain::input_bytes;
                in.resize(static_cast<std::size_t>(bytes / 4));
                held.emplace_back(number, store.put(in.data(), bytes, chain.units[number % chain.units.size()]));
                std::ranges::fill(in, -1.0F);  // it may be changed at once
              } else if (!held.empty()) {
                auto const at = held.begin() + static_cast<std::ptrdiff_t>(random() % held.size());
                if (what == 2) {
                  held.erase(at);  // never taken
                } else {
                  std::ranges::fill(out, -2.0F);
                  at->second.take(out.data());
                  expect(!at->second, "it was taken");
                  expect(out[0] == values(at->first)[0], "the first value");
                  expect(out[1] == -2.0F || out == values(at->first), "all values");
                  held.erase(at);
                }
              }
            }
            expect(store.written_bytes() > 0, "nothing was written");
            expect(slots == 4 || store.read_bytes() > 0, "nothing was read");
          }
        }) == "");
}

TEST_CASE("what is still in a slot is not read") {
  Folder const folder;
  CHECK(with_engine(chain_config(0, folder.path()), [&](Engine<float>& engine, Chain const&) {
          ActivationStore store{engine, {.bytes = 4 * Chain::input_bytes, .slots = 2}};
          std::vector<ActivationStore::Kept> kept;
          auto out = values(0);
          for (std::size_t i = 0; i < 4; ++i) {
            kept.push_back(store.put(values(i).data(), Chain::input_bytes));
          }
          for (std::size_t i = 4; i-- > 0;) {
            kept[i].take(out.data());
            expect(out == values(i), "values");
          }
          expect(store.written_bytes() == 4 * 8192, "each is written");
          expect(store.read_bytes() == 2 * 8192, "two are read");
          expect(store.waited_ms() >= 0, "waits");
        }) == "");
}

TEST_CASE("a store refuses what it cannot hold, and says what it can") {
  Folder const folder;
  auto const config = chain_config(0, folder.path());
  auto const refused = [&](Config const& with, ActivationStoreOptions const& options) {
    return with_engine(with, [&](Engine<float>& engine, Chain const&) {
      ActivationStore const store{engine, options};
    });
  };
  CHECK_THAT(refused(config, {.bytes = 100'000, .slots = 0}), Contains("slots is 0; allowed: 1 or more"));
  CHECK_THAT(refused(config, {.bytes = 5199}), Contains("bytes is 5199, less than the input of one unit, 5200"));
  CHECK_THAT(refused(config, {.bytes = 5199, .input_bytes = -1}), Contains("input_bytes is -1; allowed: 0 or more"));
  auto const in_memory = Config::from_json(R"({"train_micro_batch_size_per_gpu": 1})");
  CHECK_THAT(refused(in_memory, {.bytes = 100'000}),
             Contains("zeroth.activation_checkpointing.offload is \"none\"; on CPUs a store needs \"nvme\""));
  CHECK_THAT(messages_of(run_job(1,
                                 [&](Job& job) {
                                   SmallModel const small;
                                   Engine<float> engine{job, small.model, config};
                                   ActivationStore const store{engine, {.bytes = 100'000}};
                                 })),
             Contains("input_bytes is 0, and no unit of the model has UnitOptions::input_per_sample"));
  CHECK(with_engine(config, [&](Engine<float>& engine, Chain const&) {
          ActivationStore store{engine, {.bytes = 3 * Chain::input_bytes, .slots = 2}};
          auto data = values(1);
          auto const message = [](auto const& call) { return thrown<ContractError>(call); };
          auto const says = [](std::string const& text, char const* part) {
            expect(text.find(part) != std::string::npos, text.c_str());
          };
          says(message([&] { return store.put(data.data(), 5201); }), "bytes is 5201; allowed: 1 to 5200");
          says(message([&] { return store.put(data.data(), 0); }), "bytes is 0; allowed");
          Chain const other;
          says(message([&] { return store.put(data.data(), 4, other.units[1]); }), "the unit belongs to another model");
          says(message([&] { ActivationStore::Kept{}.take(data.data()); }), "it holds nothing");
          says(message([&] { ActivationStore::Kept{}.fetch(); }), "it holds nothing");
          std::vector<ActivationStore::Kept> kept;
          for (int i = 0; i < 3; ++i) {
            kept.push_back(store.put(data.data(), Chain::input_bytes));
          }
          says(message([&] { return store.put(data.data(), 4); }), "the store is full: it has room for 3 inputs");
          kept[0].fetch();
          kept[0].fetch();  // has no further effect
          kept[1].fetch();
          says(message([&] { kept[2].fetch(); }), "each of the 2 slots has an input that was fetched and not taken");
          says(message([&] { kept[2].take(data.data()); }), "take one before, or make a store with more slots");
          kept[2] = {};
          says(message([&] { return store.put(data.data(), 4); }), "each of the 2 slots has an input that was fetched");
          kept[1].take(data.data());
          kept[2] = store.put(data.data(), Chain::input_bytes);
          kept[2].take(data.data());
          kept[0].take(data.data());
          expect(data == values(1), "refusals changed nothing");
        }) == "");
}

TEST_CASE("a store in a folder that cannot be made ends the start, naming the key") {
  auto const said = with_engine(chain_config(0, "/dev/null"), [](Engine<float>&, Chain const&) {});
  CHECK_THAT(said, Contains("zeroth.activation_checkpointing.nvme_path: cannot create a file in /dev/null"));
}

}  // namespace zeroth::testing
