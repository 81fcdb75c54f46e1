// Profiles of step times. Run: profile_file_fuzz NEW_INPUTS tests/fuzz/corpus/profile_file
#include "checkpoint_invariants.h"
#include "engine/profile_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace deepinfer;
    using checkpoint::require;
    constexpr std::string_view key = "k";
    const auto profile = engine::parse_profile({reinterpret_cast<const char*>(data), size}, key);
    if (!profile) {
        checkpoint::check_error(profile.error());
        return 0;
    }
    // What is learned from is steps that could have been, in times that could have been.
    require(!profile->empty() && profile->size() <= engine::most_profile_steps);
    for (const engine::StepMeasurement& m : *profile) {
        require(m.seconds >= engine::shortest_profile_step && m.seconds <= engine::longest_profile_step);
        require(!m.step.empty() && m.step.size() <= engine::most_profile_chunks);
        for (const models::ChunkShape& c : m.step) {
            require(c.rows > 0 && c.position >= 0 && c.logit_rows >= 0 && c.logit_rows <= c.rows);
            require(c.position <= engine::most_profile_position - c.rows);
        }
    }
    const std::string text = engine::format_profile(key, *profile);
    if (text.size() > engine::most_profile_bytes) return 0;  // written with fewer digits than we write
    const auto again = engine::parse_profile(text, key);
    require(again.ok() && engine::format_profile(key, *again) == text);
    return 0;
}
