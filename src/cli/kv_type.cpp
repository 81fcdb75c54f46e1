#include "cli/kv_type.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/quote.h"

namespace deepinfer::cli {

void add_kv_type_options(CLI::App& command, std::optional<KvType>& type) {
    struct Names {
        std::string both, keys, values;
    };
    const auto names = std::make_shared<Names>();
    const CLI::Validator known(
        [](std::string& name) {
            return kv_type_from(name) ? "" : quote(name) + " is not one of " + all_kv_type_names();
        },
        "TYPE");
    command
        .add_option(
            "--kv-type", names->both,
            "how keys and values are stored: f16 (default), bf16 (faster over long contexts where the "
            "processor has BF16 dot products), q8 (half the memory, and with some models worse answers; q8_0 "
            "is another name for it), f32")
        ->check(known);
    command
        .add_option(
            "--cache-type-k", names->keys,
            "the same as --kv-type, as llama.cpp spells it, or -ctk; --cache-type-v, or -ctv, must be equal")
        ->check(known);
    command.add_option("--cache-type-v", names->values, "see --cache-type-k")->check(known);
    command.parse_complete_callback([names, &type] {
        const auto keys = kv_type_from(names->keys), values = kv_type_from(names->values),
                   both = kv_type_from(names->both);
        if (keys != values)
            throw CLI::ValidationError(
                "--cache-type-k and --cache-type-v (-ctk, -ctv)",
                "must be given together with the same value: keys and values have one type here");
        if (keys && both && keys != both)
            throw CLI::ValidationError("--kv-type", "contradicts --cache-type-k");
        type = both ? both : keys;
    });
}

}  // namespace deepinfer::cli
