#include "checkpoint/digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/hex.h"
#include "base/replace_file.h"

namespace deepinfer::checkpoint {

namespace {

namespace fs = std::filesystem;
using Sha = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

constexpr size_t piece_bytes = size_t{4} << 20;
constexpr size_t most_remembered_bytes = 4096;

Sha sha(const void* data, size_t bytes) {
    Sha digest;
    SHA256(static_cast<const unsigned char*>(data), bytes, digest.data());
    return digest;
}

// Every field with its length, so that no two lists of fields are the same text.
void add_text(std::string& message, std::string_view field) {
    message += std::to_string(field.size());
    message += ':';
    message += field;
}

template <class T>
void add_number(std::string& message, const T& number) {
    add_text(message, {reinterpret_cast<const char*>(&number), sizeof number});
}

void add_array(std::string& message, const MetadataArray& array) {
    std::visit(
        [&](const auto& values) {
            add_text(message, std::to_string(values.size()));
            for (const auto& value : values) {
                if constexpr (std::is_convertible_v<decltype(value), std::string_view>)
                    add_text(message, value);
                else
                    add_number(message, value);
            }
        },
        array.values);
}

void add_value(std::string& message, const MetadataValue& value) {
    add_text(message, std::to_string(value.index()));
    std::visit(
        [&](const auto& v) {
            using T = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<T, std::string>)
                add_text(message, v);
            else if constexpr (std::is_same_v<T, std::shared_ptr<const MetadataArray>>)
                add_array(message, *v);
            else
                add_number(message, v);
        },
        value);
}

std::string description(const Checkpoint& checkpoint) {
    std::string message = "deepinfer checkpoint 1";
    add_text(message, checkpoint.config_json());
    for (const auto& [key, value] : checkpoint.metadata().values) {
        add_text(message, key);
        add_value(message, value);
    }
    for (const Tensor& tensor : checkpoint.tensors()) {
        add_text(message, tensor.name);
        add_text(message, to_string(tensor.type));
        add_text(message, tensor.shape_string());
    }
    return message;
}

// The first line of a remembered digest: the files that it is of.
std::string stamp(const Checkpoint& checkpoint) {
    std::error_code error;
    std::string text = "1 ";
    for (const FileStamp& file : checkpoint.files())
        text += std::to_string(file.bytes) + " " + std::to_string(file.modified_ns) + " ";
    const std::string& config = checkpoint.config_json();
    return text + hex(sha(config.data(), config.size())) + " " +
           fs::weakly_canonical(checkpoint.path(), error).string();
}

}  // namespace

std::string content_digest(const Checkpoint& checkpoint, ThreadPool& pool) {
    struct Piece {
        const std::byte* data;
        size_t bytes;
    };
    std::vector<Piece> pieces;
    for (const Tensor& tensor : checkpoint.tensors())
        for (size_t at = 0; at < tensor.data.size(); at += piece_bytes)
            pieces.push_back({tensor.data.data() + at, std::min(piece_bytes, tensor.data.size() - at)});
    const std::string head = description(checkpoint);
    std::vector<Sha> digests(pieces.size() + 1);
    digests.back() = sha(head.data(), head.size());
    pool.for_each(static_cast<int>(pieces.size()), 1, [&](int begin, int end, int) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            digests[i] = sha(pieces[i].data, pieces[i].bytes);
            checkpoint.release_pages({pieces[i].data, pieces[i].bytes});
        }
    });
    return hex(sha(digests.data(), digests.size() * sizeof(Sha)));
}

std::string remembered_digest(const Checkpoint& checkpoint, ThreadPool& pool, const fs::path& folder) {
    if (folder.empty() || checkpoint.files().empty()) return content_digest(checkpoint, pool);
    const std::string of = stamp(checkpoint);
    const fs::path path = folder / hex(sha(of.data(), of.size())).substr(0, 32);
    std::ifstream file(path, std::ios::binary);
    std::string text(most_remembered_bytes + of.size(), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    const size_t digits = 2 * sizeof(Sha);
    if (text.size() == of.size() + 1 + digits + 1 && text.starts_with(of + "\n") && text.ends_with("\n") &&
        text.find_first_not_of("0123456789abcdef", of.size() + 1) == text.size() - 1)
        return text.substr(of.size() + 1, digits);

    const std::string digest = content_digest(checkpoint, pool);
    replace_file(path, of + "\n" + digest + "\n");
    return digest;
}

}  // namespace deepinfer::checkpoint
