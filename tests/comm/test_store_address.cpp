// SPDX-License-Identifier: Apache-2.0
#include "comm/launch/store_address.hpp"

#include "comm/made_up_environment.hpp"
#include "core/hash.hpp"
#include "support/catch.hpp"
#include "support/thrown.hpp"
#include "zeroth/core/error.hpp"

namespace zeroth::comm {
namespace {

using Catch::Contains;

StoreAddress address_of_job(Environment const& environment) {
  auto const launched = find_launched_rank(from(environment));
  REQUIRE(launched.has_value());
  return find_store_address(from(environment), *launched, "program 0f");
}

std::string error_of(Environment const& environment) {
  return testing::thrown<ConfigError>([&] { return address_of_job(environment); });
}

Environment const by_hand{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
Environment const torchrun = by_hand + Environment{{"LOCAL_RANK", "1"}, {"TORCHELASTIC_RUN_ID", "job7"}};
Environment const open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"PMIX_NAMESPACE", "425721857"}};
Environment const mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}};
Environment const srun{{"SLURM_PROCID", "1"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_JOB_ID", "123456"},
                       {"SLURM_STEP_ID", "2"},
                       {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                       {"SLURM_JOB_NODELIST", "gpu[06-09]"}};

TEST_CASE("the store's address comes from the launcher's variables") {
  struct Row {
    char const* what;
    Environment environment;
    std::string host;
    int port;
    std::string token;
  };
  auto const port_of_job = [](char const* id) {
    return 20000 + static_cast<int>(Fnv1a{}.characters(id).value() % 12000);
  };
  int const slurm_port = port_of_job("slurm 123456.2");
  std::vector<Row> const rows{
      {"by hand", by_hand, "node1", 29500, "node1:29500 program 0f"},
      {"torchrun", torchrun, "node1", 29500, "TORCHELASTIC_RUN_ID=job7"},
      {"torchrun without an id", torchrun + Environment{{"TORCHELASTIC_RUN_ID", "none"}}, "node1", 29500,
       "node1:29500 program 0f"},
      {"torchrun whose store has the port", torchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "node1",
       29501, "TORCHELASTIC_RUN_ID=job7"},
      {"torchrun whose store has not", torchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}, "node1",
       29500, "TORCHELASTIC_RUN_ID=job7"},
      {"torchrun whose store has the last port",
       torchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}}, "node1", 65534,
       "TORCHELASTIC_RUN_ID=job7"},
      {"a port of our own",
       torchrun + Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"ZEROTH_STORE_PORT", "30000"}}, "node1", 30000,
       "TORCHELASTIC_RUN_ID=job7"},
      {"a token of our own", torchrun + Environment{{"ZEROTH_JOB_TOKEN", "secret"}}, "node1", 29500, "secret"},
      {"an IPv6 address", by_hand + Environment{{"MASTER_ADDR", "[fd00::2]"}}, "fd00::2", 29500,
       "[fd00::2]:29500 program 0f"},
      {"mpirun on one machine", open_mpi, "127.0.0.1", 20000 + 7842, "PMIX_NAMESPACE=425721857"},
      {"mpirun with an address", open_mpi + Environment{{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "1234"}}, "node3",
       1234, "PMIX_NAMESPACE=425721857"},
      {"mpirun in Slurm",
       open_mpi + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"SLURM_JOB_ID", "5"},
                              {"SLURM_JOB_NODELIST", "n[3-4]"},
                              {"SLURM_STEP_NODELIST", "n4"}},
       "n3", 20000 + 7842, "PMIX_NAMESPACE=425721857"},
      {"mpiexec with an address", mpich + Environment{{"MASTER_ADDR", "node3"}, {"MASTER_PORT", "1234"}}, "node3", 1234,
       "node3:1234 program 0f"},
      {"mpiexec in Slurm", mpich + Environment{{"SLURM_JOB_ID", "5"}, {"SLURM_JOB_NODELIST", "n[3-4]"}}, "n3",
       port_of_job("slurm 5"), "slurm 5"},
      {"srun", srun, "gpu07", slurm_port, "slurm 123456.2"},
      {"srun --mpi=pmi2", srun + Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, "gpu07", slurm_port,
       "slurm 123456.2"},
      {"srun with an address", srun + Environment{{"MASTER_ADDR", "node3"}}, "node3", slurm_port, "slurm 123456.2"},
      {"srun with a port", srun + Environment{{"MASTER_PORT", "1234"}}, "gpu07", 1234, "slurm 123456.2"},
      {"one process", Environment{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_JOB_ID", "7"}},
       "127.0.0.1", port_of_job("slurm 7"), "slurm 7"},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    auto const address = address_of_job(row.environment);
    CHECK(address.host == row.host);
    CHECK(address.port == row.port);
    CHECK(address.token == row.token);
  }
}

TEST_CASE("the description of an address names the variables that it comes from") {
  CHECK(address_of_job(torchrun).given_by == "MASTER_ADDR=node1, MASTER_PORT=29500");
  CHECK(address_of_job(srun).given_by == "the first of SLURM_STEP_NODELIST=gpu[07-08], port from slurm 123456.2");
  CHECK(address_of_job(open_mpi).given_by == "all ranks are on one machine, port from PMIX_NAMESPACE=425721857");
}

TEST_CASE("a step of a job and the next job have ports of their own") {
  auto const port = [](char const* job, char const* step) {
    return address_of_job(srun + Environment{{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}).port;
  };
  CHECK(port("4711", "1") != port("4712", "0"));
}

TEST_CASE("a derived port may be taken by another job, but a given port is the only one tried") {
  CHECK(address_of_job(srun).ports == 8);
  CHECK(address_of_job(open_mpi).ports == 8);
  CHECK(address_of_job(torchrun).ports == 1);
  CHECK(address_of_job(srun + Environment{{"MASTER_PORT", "1234"}}).ports == 1);
}

TEST_CASE("programs that are started by hand differ by their arguments, but ranks of one program do not") {
  using namespace std::string_literals;
  auto const program = program_of(
      "/usr/bin/train\0--data\0a.txt\0--rank\0"
      "1\0--local-rank=1\0"s);
  CHECK_THAT(program, Catch::StartsWith("train "));
  CHECK(program == program_of("bin/train\0--data\0a.txt\0--rank\0"
                              "10\0--local-rank=2\0"s));
  CHECK(program != program_of("train\0--data\0b.txt\0--rank\0"
                              "1\0--local-rank=1\0"s));
  CHECK(program != program_of("train\0"s));
  CHECK_THAT(this_program(), Catch::StartsWith("test_environment "));
}

TEST_CASE("every rank of a job derives the same address") {
  for (auto const& environment : {torchrun, open_mpi, srun}) {
    auto other = environment;
    for (char const* const rank : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
      if (other.contains(rank)) {
        other[rank] = "3";
      }
    }
    auto const a = address_of_job(environment);
    auto const b = address_of_job(other);
    CHECK(a.host == b.host);
    CHECK(a.port == b.port);
    CHECK(a.token == b.token);
  }
}

TEST_CASE("missing and malformed variables are named") {
  auto const without = [](Environment environment, char const* name) {
    environment.erase(name);
    return environment;
  };
  struct Row {
    char const* what;
    Environment environment;
    std::vector<std::string> words;
  };
  std::vector<Row> const rows{
      {"torchrun without an address",
       without(torchrun, "MASTER_ADDR"),
       {"torchrun started this process as rank 1 of 4 (RANK=1 WORLD_SIZE=4)", "MASTER_ADDR is not set",
        "the machine of rank 0"}},
      {"torchrun with an empty address", torchrun + Environment{{"MASTER_ADDR", ""}}, {"MASTER_ADDR is not set"}},
      {"torchrun without a port", without(torchrun, "MASTER_PORT"), {"MASTER_PORT is not set", "a port that is free"}},
      {"a port that is none",
       torchrun + Environment{{"MASTER_PORT", "http"}},
       {"MASTER_PORT='http'", "whole numbers from 1 to 65535"}},
      {"a port too high", torchrun + Environment{{"MASTER_PORT", "65536"}}, {"MASTER_PORT='65536'"}},
      {"port 0", torchrun + Environment{{"ZEROTH_STORE_PORT", "0"}}, {"ZEROTH_STORE_PORT='0'"}},
      {"mpirun on several machines",
       open_mpi + Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       {"mpirun (Open MPI)", "MASTER_ADDR is not set"}},
      {"mpiexec without a number of the job",
       mpich + Environment{{"MASTER_ADDR", "a"}},
       {"mpiexec (MPICH)", "MASTER_PORT is not set"}},
      {"srun with a broken list",
       srun + Environment{{"SLURM_STEP_NODELIST", "gpu[07-"}},
       {"SLURM_STEP_NODELIST='gpu[07-'", "a number is missing at character 8"}},
      {"srun without a list",
       without(without(srun, "SLURM_STEP_NODELIST"), "SLURM_JOB_NODELIST"),
       {"srun started", "MASTER_ADDR is not set"}},
      {"srun without a job", without(srun, "SLURM_JOB_ID"), {"MASTER_PORT is not set"}},
      {"a job that is no number", srun + Environment{{"SLURM_JOB_ID", "abc"}}, {"SLURM_JOB_ID='abc'"}},
      {"a long token",
       torchrun + Environment{{"ZEROTH_JOB_TOKEN", std::string(300, 'x')}},
       {"ZEROTH_JOB_TOKEN", "300 bytes", "allowed are 256"}},
  };
  for (auto const& row : rows) {
    CAPTURE(row.what);
    auto const error = error_of(row.environment);
    for (auto const& word : row.words) {
      CHECK_THAT(error, Contains(word));
    }
  }
}

}  // namespace
}  // namespace zeroth::comm
