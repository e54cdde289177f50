#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <thread>

#include "exec/transport_link.h"
#include "exec/transport_threads.h"
#include "tests/support/transport_suite.h"

namespace fusion::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::chrono_literals;

/// Runs `work` on each rank's thread; what a rank threw, "" where it ended well.
template <class Work>
std::vector<std::string> run_ranks(int num_ranks, const LinkShapes& shapes, Work work) {
  auto transports = make_thread_transports(num_ranks, shapes);
  std::vector<std::string> errors(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(*transports[rank]);
      } catch (const PeerLost& error) {
        errors[rank] = std::string("PeerLost ") + error.what();
      } catch (const InputError& error) {
        errors[rank] = std::string("InputError ") + error.what();
      } catch (const RuntimeFault& error) {
        errors[rank] = std::string("RuntimeFault ") + error.what();
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
      transports[rank].reset();
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

TEST(ShapedLink, SendsOneMessageAfterTheOther) {
  ShapedLink link(LinkShape{BytesPerSecond(1e6), Seconds(0.5)});
  // 1 MB/s: 2 MB at t = 1 leave at 3 and arrive at 3.5; 1 MB at t = 2 waits until 3; 0 bytes at 10 find it free.
  EXPECT_EQ(link.pass(Seconds(1), Bytes(2'000'000)), (Passage{Seconds(1), Seconds(3), Seconds(3.5)}));
  EXPECT_EQ(link.pass(Seconds(2), Bytes(1'000'000)), (Passage{Seconds(3), Seconds(4), Seconds(4.5)}));
  EXPECT_EQ(link.pass(Seconds(10), Bytes(0)), (Passage{Seconds(10), Seconds(10), Seconds(10.5)}));
}

TEST(ShapedLink, IsInstantWithoutAShape) {
  ShapedLink link;
  EXPECT_EQ(link.pass(Seconds(1), Bytes(1 << 30)), (Passage{Seconds(1), Seconds(1), Seconds(1)}));
}

TEST(ShapesOf, FollowsTheRoutes) {
  const Platform platform = load_platform("pair");
  const auto shapes = shapes_of(platform, {DeviceId(0), DeviceId(1)});
  const Route path = route(platform, DeviceId(0), DeviceId(1));
  EXPECT_EQ(shapes[0][1], (LinkShape{path.bandwidth, path.latency}));
  EXPECT_EQ(shapes[0][0], std::nullopt);
}

class ThreadTransportCase : public testing::TestWithParam<TransportCase> {};
TEST_P(ThreadTransportCase, Holds) {
  for (const int num_ranks : {2, 4})
    for (const auto& error : run_ranks(num_ranks, {}, GetParam().run)) EXPECT_EQ(error, "");
}
INSTANTIATE_TEST_SUITE_P(Suite, ThreadTransportCase, testing::ValuesIn(transport_cases()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(ThreadTransport, TakesTheTimesOfItsLinks) {
  // Arrivals follow from the times of the sends alone, which a busy machine may hold back: a minute is no bound on it.
  const auto errors =
      run_ranks(2, suite_shapes(), [](Transport& t) { check_shaped_traffic(t, Seconds(1e-9), Seconds(60)); });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(ThreadTransport, ADeadRankFailsEveryWait) {
  const auto errors = run_ranks(4, {}, [](Transport& t) {
    if (t.rank() == 2) {
      std::this_thread::sleep_for(20ms);
      return kill_rank(t);
    }
    t.receive((t.rank() + 1) % 4, {1, 0, 0}, "forward blocks 3-7, micro-batch 2");
  });
  EXPECT_EQ(errors[0], "PeerLost rank 0, waiting for forward blocks 3-7, micro-batch 2 from rank 1: rank 2 died");
  EXPECT_THAT(errors[1], AllOf(HasSubstr("PeerLost rank 1"), HasSubstr("rank 2 died")));
  EXPECT_EQ(errors[2], "");
  EXPECT_THAT(errors[3], HasSubstr("rank 2 died"));
}

TEST(ThreadTransport, ADeadRankFailsAFlush) {
  const LinkShapes slow = {{std::nullopt, LinkShape{BytesPerSecond(1), Seconds(0)}}, {std::nullopt, std::nullopt}};
  const auto errors = run_ranks(2, slow, [](Transport& t) {
    if (t.rank() == 1) return kill_rank(t);
    t.send(1, {1, 0, 0}, std::vector<std::byte>(1'000'000));
    t.flush();
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("PeerLost rank 0"), HasSubstr("rank 1 died")));
}

TEST(ThreadTransport, AFrozenRankIsMissedAfterTheDeadline) {
  const auto errors = run_ranks(3, {}, [](Transport& t) {
    t.set_deadline(Seconds(0.1));
    if (t.rank() == 0) return freeze_rank(t);
    const Seconds start = t.now();
    try {
      t.receive(0, {1, 0, 0}, "x");
    } catch (const PeerLost&) {
      EXPECT_GE((t.now() - start).value, 0.0);
      throw;
    }
  });
  EXPECT_EQ(errors[1],
            "PeerLost rank 1, waiting for x from rank 0: rank 0 has not been heard of for 100 ms, the deadline");
  EXPECT_THAT(errors[2], HasSubstr("rank 0 has not been heard of"));
}

TEST(ThreadTransport, ARankThatComputesIsNotSilent) {
  const auto errors = run_ranks(2, {}, [](Transport& t) {
    t.set_deadline(Seconds(0.02));
    if (t.rank() == 1) return (void)t.receive(0, {1, 0, 0}, "x");
    std::this_thread::sleep_for(100ms);
    t.send(1, {1, 0, 0}, {});
  });
  for (const auto& error : errors) EXPECT_EQ(error, "");
}

TEST(ThreadTransport, ARankThatEndsFailsWhoWaitsForIt) {
  const auto errors = run_ranks(3, {}, [](Transport& t) {
    if (t.rank() == 0) return t.send(1, {1, 0, 0}, {});
    if (t.rank() == 1) {
      std::this_thread::sleep_for(20ms);
      t.receive(0, {1, 0, 0}, "x");  // sent before rank 0 ended
      t.send(2, {2, 0, 0}, {});
      t.receive(0, {2, 0, 0}, "y");
    }
    if (t.rank() == 2) t.receive(1, {2, 0, 0}, "z");
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "PeerLost rank 1, waiting for y from rank 0: rank 0 has ended");
  EXPECT_EQ(errors[2], "");
}

TEST(ThreadTransport, AnAbortTellsTheOthersWhy) {
  for (const auto& [code, kind] :
       {std::pair(ExitCode::bad_input, "InputError"), {ExitCode::runtime_fault, "RuntimeFault"}}) {
    const auto errors = run_ranks(3, {}, [code = code](Transport& t) {
      if (t.rank() == 1)
        EXPECT_FALSE(t.abort(code, "data.txt: is empty"));
      else
        t.receive(1, {1, 0, 0}, "x");
    });
    EXPECT_EQ(errors[0], std::string(kind) + " rank 1: data.txt: is empty");
    EXPECT_EQ(errors[2], std::string(kind) + " rank 1: data.txt: is empty");
  }
}

/// Kills one rank of a ring of messages at a random moment, many times: nobody hangs, everybody names it.
TEST(ThreadTransport, SurvivesNoKillAtAnyMoment) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const int victim = static_cast<int>(seed % 4);
    const auto errors = run_ranks(4, {}, [&](Transport& t) {
      for (unsigned i = 0;; ++i) {
        if (t.rank() == victim && i == seed * 3) return kill_rank(t);
        t.send((t.rank() + 1) % 4, {i, 0, 0}, pattern(100, i));
        t.receive((t.rank() + 3) % 4, {i, 0, 0}, "round " + std::to_string(i));
      }
    });
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_THAT(errors[static_cast<std::size_t>(rank)],
                  HasSubstr(rank == victim ? "" : "rank " + std::to_string(victim) + " died"));
  }
}

}  // namespace
}  // namespace fusion::exec
