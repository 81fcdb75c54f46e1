#include "api/content.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "api/fields.h"

namespace deepinfer::api {
namespace {

constexpr std::string_view no_image = "[Unsupported Image]";
constexpr size_t longest_link = 8192;
constexpr std::array<std::string_view, 5> image_types = {"png", "jpeg", "jpg", "gif", "webp"};

bool begins_with(std::string_view text, std::string_view lower_case_prefix) {
    return text.size() >= lower_case_prefix.size() &&
           std::equal(lower_case_prefix.begin(), lower_case_prefix.end(), text.begin(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

bool is_base64(std::string_view text) {
    while (text.ends_with('=')) text.remove_suffix(1);
    return text.size() % 4 != 1 &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '/'; });
}

void check_data_url(std::string_view url, const std::string& path) {
    constexpr std::string_view marker = "base64,";
    const size_t data = url.find(marker);
    if (!begins_with(url, "data:") || data == url.npos)
        fail(path, in_quotes(path) + " must be a URL that begins with http, or data:image/TYPE;base64,DATA.",
             "image");
    const std::string_view head = url.substr(5, data - 5);
    const bool known = std::ranges::any_of(
        image_types, [&](std::string_view type) { return begins_with(head, "image/" + std::string(type)); });
    if (!known) fail(path, in_quotes(path) + ": a picture must be of type png, jpeg, gif or webp.", "image");
    if (!is_base64(url.substr(data + marker.size())))
        fail(path, in_quotes(path) + " holds no valid base64.", "image");
}

}  // namespace

void ContentBuilder::separate() {
    if (any_) content_.text += separator_;
    any_ = true;
}

void ContentBuilder::add_text(std::string_view text) {
    separate();
    content_.text += text;
}

void ContentBuilder::add_image(recipe::Image image) {
    separate();
    image.offset = content_.text.size();
    content_.images.push_back(std::move(image));
}

void add_image(ContentBuilder& content, std::string url, std::string detail, const std::string& path,
               const ServiceRules& rules) {
    if (!rules.takes_images()) {
        if (!rules.is_deepseek()) fail(path, "This model does not take pictures; send text.", "image");
        content.add_text(no_image);
        return;
    }
    if (begins_with(url, "http")) {
        if (url.size() > longest_link)
            fail(path,
                 in_quotes(path) + ": the link has " + std::to_string(url.size()) + " bytes; at most " +
                     std::to_string(longest_link) + " are allowed. Send the picture as a data URL.",
                 "image");
    } else {
        check_data_url(url, path);
    }
    content.add_image({.offset = 0, .source = std::move(url), .detail = std::move(detail), .path = path});
}

std::string image_data_url(std::string_view media_type, std::string base64) {
    while (base64.ends_with('=')) base64.pop_back();
    base64.append((4 - base64.size() % 4) % 4, '=');
    return std::string("data:").append(media_type).append(";base64,").append(base64);
}

void set_content(recipe::Message& message, Content content) {
    message.content = std::move(content.text);
    message.images = std::move(content.images);
}

bool is_billing_header(std::string_view text) { return begins_with(text, "x-anthropic-billing-header"); }

std::string without_billing_header(std::string text) {
    if (!is_billing_header(text)) return text;
    const size_t line = text.find('\n'), you = text.find("You are");
    if (you != text.npos && (line == text.npos || you < line)) return text.substr(you);
    if (line == text.npos) return {};
    const size_t begin = text.find_first_not_of(" \t\r\n", line);
    return begin == text.npos ? std::string() : text.substr(begin);
}

}  // namespace deepinfer::api
