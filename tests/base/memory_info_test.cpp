// Available memory within the limits of control groups, read from a made-up file tree.
#include "base/memory_info.h"

#include <gtest/gtest.h>

#include "file_tree.h"

namespace deepinfer {
namespace {

class MemoryInfo : public ::testing::Test {
  protected:
    void write(const std::string& file, const std::string& text) { tree_.write(file, text); }
    void machine_has(uint64_t kib) {
        write("proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: " + std::to_string(kib) + " kB\n");
    }
    void version2_group(const std::string& path, const std::string& limit, const std::string& used) {
        write("sys/fs/cgroup" + path + "/memory.max", limit + "\n");
        write("sys/fs/cgroup" + path + "/memory.current", used + "\n");
    }
    void version1_group(const std::string& path, const std::string& limit, const std::string& used) {
        write("sys/fs/cgroup/" + path + "/memory.limit_in_bytes", limit + "\n");
        write("sys/fs/cgroup/" + path + "/memory.usage_in_bytes", used + "\n");
    }
    std::optional<uint64_t> available() const { return available_memory(tree_.path.string()); }
    const deepinfer::testing::FileTree tree_;
};

TEST_F(MemoryInfo, TheKernelsEstimateWithoutLimits) {
    EXPECT_EQ(available(), std::nullopt);
    machine_has(1000);
    EXPECT_EQ(available(), 1024000u);
    write("proc/self/cgroup", "0::/a\n");
    version2_group("/a", "max", "5");
    EXPECT_EQ(available(), 1024000u);
}

TEST_F(MemoryInfo, Version2) {
    machine_has(1000);
    write("proc/self/cgroup", "0::/a\n");
    version2_group("/a", "9000", "4000");
    EXPECT_EQ(available(), 5000u);
    write("sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 1000\nactive_file 200\n");
    EXPECT_EQ(available(), 6200u) << "cached pages are given back";
    version2_group("/a", "3000", "9000");
    EXPECT_EQ(available(), 0u) << "over its limit";
}

TEST_F(MemoryInfo, Version2TheLeastOfAllAbove) {
    machine_has(1000);
    write("proc/self/cgroup", "0::/user.slice/a.service/inner\n");
    version2_group("/user.slice/a.service/inner", "max", "10");
    version2_group("/user.slice/a.service", "9000", "1000");
    EXPECT_EQ(available(), 8000u);
    version2_group("/user.slice", "7000", "5000");
    EXPECT_EQ(available(), 2000u);
}

TEST_F(MemoryInfo, Version1TheLeastOfAllAbove) {
    machine_has(1000);
    write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/abc\n0::/\n");
    version1_group("memory/docker/abc", "9223372036854771712", "10");
    EXPECT_EQ(available(), 1024000u) << "how version 1 writes that there is none";
    version1_group("memory/docker", "9000", "4000");
    write("sys/fs/cgroup/memory/docker/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    EXPECT_EQ(available(), 5500u);
}

TEST_F(MemoryInfo, Version1MountedWithOthers) {
    machine_has(1000);
    write("proc/self/cgroup", "3:hugetlb,memory:/docker/abc\n");
    version1_group("hugetlb,memory/docker/abc", "9000", "4000");
    EXPECT_EQ(available(), 5000u);
    version1_group("memory", "6000", "4000");  // of a container that does not see its path
    EXPECT_EQ(available(), 2000u);
}

TEST_F(MemoryInfo, ALimitBindsWithoutALineInProc) {
    machine_has(1000);
    version2_group("", "9000", "4000");
    EXPECT_EQ(available(), 5000u);
    version1_group("memory", "6000", "4000");
    EXPECT_EQ(available(), 2000u);
}

}  // namespace
}  // namespace deepinfer
