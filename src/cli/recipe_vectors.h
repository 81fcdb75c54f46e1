// Recorded cases of the official codec, compared with ours: what `deepinfer recipe check` does.
//
// The form of a file follows from its members: prompts, errors, streams, token ids, numbers, tool call ids, token counts of
// pictures. Streams are equal if the events are after merging neighbouring deltas, if at every chunk at least as much text
// is out, and if the final object is equal.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace deepinfer::cli {

class RecipeVectors {
  public:
    // `v41` may be null: cases that need it then fail.
    RecipeVectors(const tokenizer::Tokenizer& v4, const tokenizer::Tokenizer* v41) : v4_(v4), v41_(v41) {}

    struct Tally {
        size_t passed = 0, failed = 0;
    };
    struct Failure {
        std::string name, difference;
    };

    // All .json files below a folder, or one file. Files of other forms are skipped and named.
    Status check(const std::filesystem::path& path);

    const std::map<std::string, Tally>& by_kind() const { return by_kind_; }
    const std::vector<Failure>& failures() const { return failures_; }
    const std::vector<std::string>& skipped() const { return skipped_; }
    // Cases in which we do better than what was recorded.
    const std::vector<std::string>& excluded() const { return excluded_; }

  private:
    Status check_file(const std::filesystem::path& file);
    void record(const std::string& kind, const std::string& name, const std::string& difference);
    const tokenizer::Tokenizer* tokenizer_of(std::string_view version) const {
        return version == "v4" ? &v4_ : v41_;
    }

    std::string check_prompt(const boost::json::object& vector) const;
    std::string check_error(const boost::json::object& vector) const;
    void check_numbers(const boost::json::object& vector, const std::string& name);
    void check_long_runs(const boost::json::object& vector, const std::string& name);
    void check_token_counts(const boost::json::object& vector, const std::string& name);
    void check_image_sizes(const boost::json::object& vector, const std::string& name);
    void check_call_ids(const boost::json::object& vector, const std::string& name);
    void check_encoding(const boost::json::object& vector, const std::string& name);

    const tokenizer::Tokenizer& v4_;
    const tokenizer::Tokenizer* v41_;
    std::map<std::string, Tally> by_kind_;
    std::vector<Failure> failures_;
    std::vector<std::string> skipped_, excluded_;
};

}  // namespace deepinfer::cli
