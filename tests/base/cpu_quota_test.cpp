// Quotas of control groups, read from a made-up file tree.
#include "base/cpu_quota.h"

#include <gtest/gtest.h>

#include "file_tree.h"

namespace deepinfer {
namespace {

class CpuQuota : public ::testing::Test {
  protected:
    void write(const std::string& file, const std::string& text) { tree_.write(file, text); }
    std::optional<double> quota() const { return cpu_quota(tree_.path.string()); }
    const deepinfer::testing::FileTree tree_;
};

TEST_F(CpuQuota, NothingWithoutGroupsOrLimits) {
    EXPECT_EQ(quota(), std::nullopt);
    write("proc/self/cgroup", "0::/\n");
    EXPECT_EQ(quota(), std::nullopt);
    write("sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT_EQ(quota(), std::nullopt);
    for (const char* damaged : {"", "\n", "1000", "x 5", "100000 0", "-1 100000", "nan 1"}) {
        write("sys/fs/cgroup/cpu.max", damaged);
        EXPECT_EQ(quota(), std::nullopt) << damaged;
    }
}

TEST_F(CpuQuota, Version2) {
    write("proc/self/cgroup", "0::/\n");  // a container with a name space of its own
    write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, Version2TheLeastOfAllAbove) {
    write("proc/self/cgroup", "0::/system.slice/a.service/inner\n");
    write("sys/fs/cgroup/system.slice/cpu.max", "800000 100000\n");
    write("sys/fs/cgroup/system.slice/a.service/cpu.max", "300000 100000\n");
    write("sys/fs/cgroup/system.slice/a.service/inner/cpu.max", "max 100000\n");
    EXPECT_EQ(quota(), 3);
    write("sys/fs/cgroup/system.slice/cpu.max", "25000 50000\n");
    EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, Version1) {
    write("proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/\n");
    write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(quota(), std::nullopt);
    write("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000\n");
    EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, Version1InAContainerThatDoesNotSeeItsPath) {
    write("proc/self/cgroup", "4:cpuacct,cpu:/docker/abc\n");
    write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(quota(), 4);
}

TEST(ThreadsWithin, AsManyAsTheQuotaKeepsBusy) {
    EXPECT_EQ(threads_within(8, std::nullopt), 8);
    EXPECT_EQ(threads_within(8, 100), 8);
    EXPECT_EQ(threads_within(8, 8), 8);
    EXPECT_EQ(threads_within(8, 3), 3);
    EXPECT_EQ(threads_within(8, 2.9), 2);
    EXPECT_EQ(threads_within(8, 0.1), 1);
    EXPECT_EQ(threads_within(8, 1e300), 8);
}

}  // namespace
}  // namespace deepinfer
