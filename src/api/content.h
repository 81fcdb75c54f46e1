// Contents of messages in all three protocols: text, or parts of text and pictures, which become one text with marked places.
// Internal to the api layer: throws FieldError.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/service_rules.h"
#include "recipe/conversation.h"

namespace deepinfer::api {

struct Content {
    std::string text;
    std::vector<recipe::Image> images;
};

class ContentBuilder {
  public:
    explicit ContentBuilder(std::string_view separator) : separator_(separator) {}

    void add_text(std::string_view text);
    void add_image(recipe::Image image);
    bool any() const { return any_; }
    Content take() { return std::move(content_); }

  private:
    void separate();

    const std::string_view separator_;
    bool any_ = false;
    Content content_;
};

// Adds a picture given by URL, or what stands for it where the format has no pictures. `url`: data:image/…;base64,… or http(s).
void add_image(ContentBuilder& content, std::string url, std::string detail, const std::string& path,
               const ServiceRules& rules);

// A data URL of bytes in base64, with the padding that it lacks.
std::string image_data_url(std::string_view media_type, std::string base64);

void set_content(recipe::Message& message, Content content);

// Claude Code puts a line for its maker's billing before its system prompt. It changes, and would change every prompt.
bool is_billing_header(std::string_view text);
std::string without_billing_header(std::string text);  // up to the first line break or "You are"

}  // namespace deepinfer::api
