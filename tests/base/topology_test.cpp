#include "base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "base/thread_pool.h"

namespace deepinfer {
namespace {

using Lists = std::vector<std::vector<int>>;

std::string fake_nodes(const std::map<int, std::string>& lists) {
    const auto folder = std::filesystem::path(testing::TempDir()) /
                        ("nodes" + std::to_string(::getpid()) + "_" + std::to_string(lists.size()));
    for (const auto& [node, list] : lists) {
        const auto place = folder / ("node" + std::to_string(node));
        std::filesystem::create_directories(place);
        std::ofstream(place / "cpulist") << list << "\n";
    }
    return folder.string();
}

TEST(Topology, ProcessorListsOfTheKernel) {
    EXPECT_EQ(parse_processor_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
    EXPECT_EQ(parse_processor_list("5"), (std::vector<int>{5}));
    EXPECT_TRUE(parse_processor_list("").empty());
    EXPECT_TRUE(parse_processor_list("x,-3").empty());
    EXPECT_EQ(parse_processor_list("0-2000000000", 10).size(), 10u);
}

TEST(Topology, AllowedProcessorsAreGroupedByNode) {
    const std::string folder = fake_nodes({{0, "0-3"}, {1, "4-7"}});
    EXPECT_EQ(Topology::read(folder, {0, 1, 4, 6}).nodes, (Lists{{0, 1}, {4, 6}}));
    EXPECT_EQ(Topology::read(folder, {5, 6}).nodes, (Lists{{5, 6}})) << "a node without an allowed processor";
    EXPECT_EQ(Topology::read(folder, {1, 9}).nodes, (Lists{{1, 9}})) << "a processor that no node lists";
    EXPECT_EQ(Topology::read("/no/such/folder", {2, 3}).nodes, (Lists{{2, 3}}));
    EXPECT_GE(Topology::of_this_process().processors(), 1);
}

TEST(Topology, ThreadsAreSpreadOverTheNodes) {
    ThreadPool pool(5, Topology{{{0, 1}, {2, 3}}}, false);
    EXPECT_EQ(pool.nodes(), 2);
    std::vector<int> nodes;
    for (int i = 0; i < 5; ++i) nodes.push_back(pool.node_of(i));
    EXPECT_EQ(nodes, (std::vector<int>{0, 0, 0, 1, 1}));
    EXPECT_EQ(ThreadPool(1, Topology{{{0}, {1}}}, false).nodes(), 1);
}

// Without help from the other node each thread gets what it got the last time: that is what makes pages that were
// touched first while loading near to the thread that reads them.
TEST(Topology, EachNodeHasItsOwnRangeAndHelpsWhenItIsDone) {
    ThreadPool pool(2, Topology{{{0}, {1}}}, false);
    for (const int stuck : {0, 1}) {
        std::vector<int> owner(1000, -1);
        std::atomic<int> left{1000};
        std::atomic<bool> begun{false};
        pool.for_each_guided(1000, 10, [&](int begin, int end, int thread) {
            if (thread == stuck) {  // it holds its first piece until the other has done all the rest
                begun = true;
                while (left.load() > end - begin) std::this_thread::yield();
            } else {
                while (!begun.load()) std::this_thread::yield();
            }
            for (int i = begin; i < end; ++i) owner[static_cast<size_t>(i)] = thread;
            left -= end - begin;
        });
        EXPECT_EQ(left.load(), 0);
        EXPECT_EQ(owner[stuck == 0 ? 0 : 500], stuck) << "the first piece of its own range";
        EXPECT_EQ(owner[stuck == 0 ? 500 : 0], 1 - stuck);
        EXPECT_EQ(owner[stuck == 0 ? 499 : 999], 1 - stuck) << "helped";
    }
}

TEST(Topology, PinnedThreadsRunWhereTheyBelong) {
    const Topology topology = Topology::of_this_process();
    ThreadPool pool(topology.processors(), topology, true);
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
    std::mutex mutex;
    std::set<int> where;
    {
        ThreadPool::PinnedCaller pinned(pool);
        std::atomic<int> here{0};
        pool.for_each(topology.processors(), 1, [&](int, int, int) {  // one each: all wait for all
            here.fetch_add(1);
            while (here.load() < topology.processors()) std::this_thread::yield();
            cpu_set_t mine;
            sched_getaffinity(0, sizeof mine, &mine);
            std::lock_guard lock(mutex);
            EXPECT_EQ(CPU_COUNT(&mine), 1);
            where.insert(sched_getcpu());
        });
    }
    EXPECT_EQ(static_cast<int>(where.size()), topology.processors());
    sched_getaffinity(0, sizeof after, &after);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPoolGuided, EveryPieceIsDoneOnce) {
    for (int threads : {1, 2, 3, 8})
        for (int nodes : {1, 2, 3}) {
            Topology topology;
            for (int n = 0; n < nodes; ++n) topology.nodes.push_back({n});
            ThreadPool pool(threads, topology, false);
            for (int count : {0, 1, 5, 64, 1000})
                for (int smallest : {1, 7, 2000}) {
                    std::vector<int> done(static_cast<size_t>(count), 0);
                    pool.for_each_guided(count, smallest, [&](int begin, int end, int) {
                        for (int i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
                    });
                    ASSERT_EQ(std::count(done.begin(), done.end(), 1), count);
                }
        }
}

}  // namespace
}  // namespace deepinfer
