// A Redis Cluster of our own, and a server that replies what a test says.
#pragma once

#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "redis_server.h"
#include "store/redis_connection.h"
#include "store/redis_slots.h"

namespace deepinfer::store {

inline Clock::time_point in(std::chrono::milliseconds time) { return Clock::now() + time; }

// Masters share the slots evenly, in order; replicas follow the first of them.
class RedisNodes {
  public:
    struct Options {
        size_t masters = 3, replicas = 0;
        std::string host = "127.0.0.1", password = {};
        bool form = true;
    };
    RedisNodes() : RedisNodes(Options{}) {}
    explicit RedisNodes(Options options) : options_(std::move(options)) {
        for (size_t i = 0; i < size(); ++i) {
            bus_.push_back(RedisServer::free_port());
            std::vector<std::string> words{"--cluster-enabled",
                                           "yes",
                                           "--cluster-port",
                                           std::to_string(bus_.back()),
                                           "--cluster-node-timeout",
                                           "1500",
                                           "--cluster-require-full-coverage",
                                           "no",
                                           "--repl-diskless-sync-delay",
                                           "0",
                                           "--bind",
                                           "127.0.0.1",
                                           "-::1"};
            if (!options_.password.empty())
                for (const char* word : {"--requirepass", "--masterauth"})
                    words.insert(words.end(), {word, options_.password});
            servers_.push_back(std::make_unique<RedisServer>(words));
        }
        if (options_.form) form();
    }
    size_t size() const { return options_.masters + options_.replicas; }
    RedisServer& operator[](size_t i) { return *servers_[i]; }
    std::string where(size_t i) const {
        return (options_.host == "::1" ? "[::1]" : options_.host) + ":" + std::to_string(servers_[i]->port());
    }
    std::string url(size_t i, const std::string& who = {}) const { return "redis://" + who + where(i); }

    void form() {
        for (size_t i = 0; i < options_.masters; ++i) {
            const size_t first = slot_count * i / options_.masters;
            const size_t last = slot_count * (i + 1) / options_.masters - 1;
            ask(i, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
        }
        for (size_t i = 0; i < size(); ++i) {
            ask(i, {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
            if (i > 0)
                ask(0, {"CLUSTER", "MEET", options_.host, std::to_string((*this)[i].port()),
                        std::to_string(bus_[i])});
        }
        wait([&](size_t i) {
            const std::string info = text(i, {"CLUSTER", "INFO"});
            return info.find("cluster_state:ok") != std::string::npos &&
                   info.find("cluster_slots_ok:16384") != std::string::npos &&
                   info.find("cluster_known_nodes:" + std::to_string(size())) != std::string::npos;
        });
        for (size_t i = options_.masters; i < size(); ++i) ask(i, {"CLUSTER", "REPLICATE", id(0)});
        for (size_t i = options_.masters; i < size(); ++i)
            wait([&](size_t) {
                return text(i, {"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
            });
    }
    RedisReply ask(size_t i, const std::vector<std::string>& words) {
        const RedisCommand command(words.begin(), words.end());
        return std::move(ask_all(i, {&command, 1})[0]);
    }
    // A replica has all that was written to the node. WAIT speaks of its own connection's writes, so there must be one.
    void wait_for_replica(size_t i) {
        std::string key = "written";
        while (owner(key) != i) key += '.';
        const std::vector<RedisCommand> commands{{"SET", key, "1"}, {"WAIT", "1", "8000"}};
        const auto replies = ask_all(i, commands);
        ASSERT_TRUE(replies[1]);
        EXPECT_EQ(replies[1]->integer, 1);
    }
    std::string text(size_t i, const std::vector<std::string>& words) {
        const RedisReply reply = ask(i, words);
        return reply && reply->str ? std::string(reply->str, reply->len) : std::string();
    }
    std::string id(size_t i) { return text(i, {"CLUSTER", "MYID"}); }
    size_t owner(const std::string& key) const { return slot_of_key(key) * options_.masters / slot_count; }
    // How often nodes have replied with this error.
    int errors(const std::string& name) {
        int sum = 0;
        for (size_t i = 0; i < size(); ++i) {
            const std::string stats = text(i, {"INFO", "errorstats"});
            const std::string start = "errorstat_" + name + ":count=";
            if (const size_t at = stats.find(start); at != std::string::npos)
                sum += std::stoi(stats.substr(at + start.size()));
        }
        return sum;
    }
    void forget_blocks() {
        for (size_t i = 0; i < size(); ++i) ask(i, {"FLUSHALL"});
    }

  private:
    std::vector<RedisReply> ask_all(size_t i, std::span<const RedisCommand> commands) {
        RedisAddress address;
        address.host = "127.0.0.1";
        address.port = (*this)[i].port();
        address.password = options_.password;
        RedisConnection connection(address, 1);
        return connection.run(commands, in(std::chrono::seconds(10)));
    }
    void wait(const std::function<bool(size_t)>& good) {
        for (size_t i = 0; i < size(); ++i) {
            bool yes = false;
            for (int tries = 0; tries < 1000 && !(yes = good(i)); ++tries)
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            EXPECT_TRUE(yes) << "node " << i << ": " << text(i, {"CLUSTER", "INFO"});
        }
    }

    const Options options_;
    std::vector<int> bus_;
    std::vector<std::unique_ptr<RedisServer>> servers_;
};

// Sends for each command what `reply` says, in RESP. Threads: it is called by one of this object's own.
class FakeRedis {
  public:
    using Words = std::vector<std::string>;
    explicit FakeRedis(std::function<std::string(const Words&)> reply) : reply_(std::move(reply)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(listener_, 16), 0);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeRedis() {
        ended_ = true;
        thread_.join();
        ::close(listener_);
    }
    int port() const { return port_; }
    std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
    int count(const std::string& word) {  // of commands that began with it
        const std::lock_guard lock(mutex_);
        return counts_[word];
    }

  private:
    struct FreeReader {
        void operator()(redisReader* reader) const { redisReaderFree(reader); }
    };
    void serve() {
        std::map<int, std::unique_ptr<redisReader, FreeReader>> clients;
        while (!ended_) {
            std::vector<pollfd> sockets{{listener_, POLLIN, 0}};
            for (const auto& [fd, reader] : clients) sockets.push_back({fd, POLLIN, 0});
            ::poll(sockets.data(), sockets.size(), 5);
            if (sockets[0].revents != 0) {
                const int fd = ::accept(listener_, nullptr, nullptr), yes = 1;
                ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                clients[fd].reset(redisReaderCreate());
            }
            for (size_t i = 1; i < sockets.size(); ++i) {
                const int fd = sockets[i].fd;
                if (sockets[i].revents == 0 || take(fd, *clients[fd])) continue;
                ::close(fd);
                clients.erase(fd);
            }
        }
        for (const auto& [fd, reader] : clients) ::close(fd);
    }
    bool take(int fd, redisReader& reader) {
        char buffer[65'536];
        const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
        if (count <= 0 || redisReaderFeed(&reader, buffer, static_cast<size_t>(count)) != REDIS_OK)
            return false;
        for (;;) {
            void* got = nullptr;
            if (redisReaderGetReply(&reader, &got) != REDIS_OK) return false;
            const RedisReply command(static_cast<redisReply*>(got));
            if (!command) return true;
            Words words;
            for (size_t i = 0; i < command->elements; ++i)
                words.emplace_back(command->element[i]->str, command->element[i]->len);
            {
                const std::lock_guard lock(mutex_);
                ++counts_[words[0]];
            }
            const std::string answer = reply_(words);
            if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return false;
        }
    }

    const std::function<std::string(const Words&)> reply_;
    int listener_ = -1, port_ = 0;
    std::atomic<bool> ended_ = false;
    std::mutex mutex_;
    std::map<std::string, int> counts_;
    std::thread thread_;
};

}  // namespace deepinfer::store
