// A Redis server of our own, on a Unix socket and a port in a temporary folder.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace deepinfer::store {

class RedisServer {
  public:
    explicit RedisServer(std::vector<std::string> more = {}) : more_(std::move(more)) {
        char name[] = "/tmp/redis_XXXXXX";
        folder_ = ::mkdtemp(name);
        port_ = free_port();
        start();
    }
    ~RedisServer() {
        kill();
        std::filesystem::remove_all(folder_);
    }
    std::string url(const std::string& who = {}) const {
        return "redis://" + who + "127.0.0.1:" + std::to_string(port_);
    }
    int port() const { return port_; }
    std::string socket_url() const { return "unix://" + (folder_ / "socket").string(); }

    void start() {
        std::vector<std::string> words{"redis-server",
                                       "--port",
                                       std::to_string(port_),
                                       "--bind",
                                       "127.0.0.1",
                                       "--unixsocket",
                                       (folder_ / "socket").string(),
                                       "--dir",
                                       folder_.string(),
                                       "--save",
                                       "",
                                       "--appendonly",
                                       "no",
                                       "--loglevel",
                                       "warning"};
        words.insert(words.end(), more_.begin(), more_.end());
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        posix_spawn_file_actions_t quiet;
        posix_spawn_file_actions_init(&quiet);
        posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
        ASSERT_EQ(::posix_spawnp(&process_, "redis-server", &quiet, nullptr, argv.data(), environ), 0);
        posix_spawn_file_actions_destroy(&quiet);
        for (int i = 0; i < 500 && !answers(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    void kill() {
        if (process_ <= 0) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = -1;
    }
    void stop() const { ::kill(process_, SIGSTOP); }  // it stalls, with its connections open
    void go_on() const { ::kill(process_, SIGCONT); }

    // Below those that outgoing connections get, and elsewhere in each process: nobody takes it before the server does.
    static int free_port() {
        static int next = ::getpid() * 61 % 20'000;
        for (int tries = 0; tries < 20'000; ++tries) {
            const int port = 10'000 + next++ % 20'000;
            const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_port = htons(static_cast<uint16_t>(port));
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
            ::close(fd);
            if (free) return port;
        }
        ADD_FAILURE() << "no port is free";
        return 0;
    }

  private:
    static bool connects(int family, const void* address, socklen_t size) {
        const int fd = ::socket(family, SOCK_STREAM, 0);
        const bool yes = ::connect(fd, static_cast<const sockaddr*>(address), size) == 0;
        ::close(fd);
        return yes;
    }
    // On its port and, which comes later, its socket.
    bool answers() const {
        sockaddr_in port{};
        port.sin_family = AF_INET;
        port.sin_port = htons(static_cast<uint16_t>(port_));
        port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockaddr_un socket{};
        socket.sun_family = AF_UNIX;
        const std::string path = (folder_ / "socket").string();
        path.copy(socket.sun_path, sizeof socket.sun_path - 1);
        return connects(AF_INET, &port, sizeof port) && connects(AF_UNIX, &socket, sizeof socket);
    }

    const std::vector<std::string> more_;
    std::filesystem::path folder_;
    int port_ = 0;
    pid_t process_ = -1;
};

}  // namespace deepinfer::store
