#include "cli/bench_options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>

#include "base/quote.h"
#include "base/thread_pool.h"
#include "cli/kv_type.h"

namespace deepinfer::cli {

namespace {

constexpr int most_values = 1024;  // of one list

Error bad_value(const std::string& value, const std::string& expected) {
    return {ErrorCode::invalid_argument, quote(value) + " is not " + expected};
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == separator)
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

bool take_number(std::string_view& text, int& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
}

struct Bounds {
    int least, most;
};

Result<int> parse_number(const std::string& text, Bounds bounds) {
    std::string_view rest = text;
    int number = 0;
    if (!take_number(rest, number) || !rest.empty() || number < bounds.least || number > bounds.most)
        return bad_value(
            text, "a number from " + std::to_string(bounds.least) + " to " + std::to_string(bounds.most));
    return number;
}

// first-last, first-last+step, first-last*factor
Status append_range(const std::string& text, Bounds bounds, std::vector<int>& values) {
    std::string_view rest = text;
    int first = 0, last = 0, step = 1;
    char operation = '+';
    bool good = take_number(rest, first) && rest.starts_with('-');
    if (good) rest.remove_prefix(1);
    good = good && take_number(rest, last);
    if (good && !rest.empty()) {
        operation = rest.front();
        rest.remove_prefix(1);
        good = (operation == '+' || operation == '*') && take_number(rest, step) && rest.empty();
    }
    good = good && first >= bounds.least && first <= last && last <= bounds.most &&
           (operation == '+' ? step >= 1 : step >= 2 && first >= 1);
    if (!good)
        return bad_value(text, "a range of numbers from " + std::to_string(bounds.least) + " to " +
                                   std::to_string(bounds.most) + " such as 1-4, 128-512+128 or 1-16*2");
    for (int64_t at = first; at <= last; at = operation == '+' ? at + step : at * step) {
        if (values.size() >= most_values)
            return bad_value(text, "a range of at most " + std::to_string(most_values) + " values");
        values.push_back(static_cast<int>(at));
    }
    return {};
}

Status append_numbers(const std::string& text, Bounds bounds, std::vector<int>& values) {
    for (const std::string& part : split(text, ',')) {
        if (part.find('-') != std::string::npos) {
            if (Status status = append_range(part, bounds, values); !status) return status;
            continue;
        }
        auto number = parse_number(part, bounds);
        if (!number) return std::move(number).error();
        if (values.size() >= most_values)
            return bad_value(text, "a list of at most " + std::to_string(most_values) + " values");
        values.push_back(*number);
    }
    return {};
}

Status append_kv_types(const std::string& text, std::vector<KvType>& types) {
    for (const std::string& name : split(text, ',')) {
        const auto type = kv_type_from(name);
        if (!type) return bad_value(name, "a type of keys and values: " + all_kv_type_names());
        types.push_back(*type);
    }
    return {};
}

struct Parsed {
    BenchOptions options;
    std::vector<KvType> key_types, value_types;  // -ctk, -ctv
};

struct Option {
    std::vector<std::string> names;
    const char* value;  // what it takes, for the help; nullptr: a flag
    const char* help;
    std::function<Status(Parsed&, const std::string&)> apply;
};

constexpr Bounds token_bounds{0, 1 << 20};

Option numbers(std::vector<std::string> names, const char* help, std::vector<int> BenchOptions::* list,
               Bounds bounds) {
    return {std::move(names), "<n,...>", help, [list, bounds](Parsed& parsed, const std::string& text) {
                return append_numbers(text, bounds, parsed.options.*list);
            }};
}
Option number(std::vector<std::string> names, const char* help, int BenchOptions::* member, Bounds bounds) {
    return {std::move(names), "<n>", help,
            [member, bounds](Parsed& parsed, const std::string& text) -> Status {
                auto value = parse_number(text, bounds);
                if (!value) return std::move(value).error();
                parsed.options.*member = *value;
                return {};
            }};
}
Option flag(std::vector<std::string> names, const char* help, bool BenchOptions::* member, bool value) {
    return {std::move(names), nullptr, help, [member, value](Parsed& parsed, const std::string&) -> Status {
                parsed.options.*member = value;
                return {};
            }};
}
Option kv_types(std::vector<std::string> names, const char* help, std::vector<KvType> Parsed::* list) {
    return {std::move(names), "<type,...>", help,
            [list](Parsed& parsed, const std::string& text) { return append_kv_types(text, parsed.*list); }};
}

Status apply_output(Parsed& parsed, const std::string& text) {
    constexpr std::pair<const char*, BenchOutput> outputs[] = {{"md", BenchOutput::markdown},
                                                               {"json", BenchOutput::json},
                                                               {"jsonl", BenchOutput::jsonl},
                                                               {"csv", BenchOutput::csv}};
    for (const auto& [name, output] : outputs)
        if (text == name) {
            parsed.options.output = output;
            return {};
        }
    return bad_value(text, "an output that is supported: md, json, jsonl, csv");
}

Status apply_prompt_then_generation(Parsed& parsed, const std::string& text) {
    std::vector<int> pair;
    if (Status status = append_numbers(text, {1, token_bounds.most}, pair); !status) return status;
    if (pair.size() != 2) return bad_value(text, "a pair such as 512,128");
    parsed.options.prompt_then_generation.emplace_back(pair[0], pair[1]);
    return {};
}

Status apply_models(Parsed& parsed, const std::string& text) {
    for (const std::string& path : split(text, ',')) {
        if (path.empty()) return bad_value(text, "a model's path");
        parsed.options.models.push_back(path);
    }
    return {};
}

Status apply_compute(Parsed& parsed, const std::string& text) {
    if (text != "serve" && text != "f32") return bad_value(text, "serve or f32");
    parsed.options.compute = text == "f32" ? kernels::Compute::f32 : kernels::Compute::serve;
    return {};
}

const std::vector<Option>& option_table() {
    static const std::vector<Option> table = {
        flag({"-h", "--help"}, "print this", &BenchOptions::help, true),
        {{"-m", "--model"}, "<path,...>", "models: GGUF or safetensors files, folders", apply_models},
        numbers({"-p", "--n-prompt"}, "tokens of a prompt (512)", &BenchOptions::prompts, token_bounds),
        numbers({"-n", "--n-gen"}, "tokens decoded one by one (128)", &BenchOptions::generations,
                token_bounds),
        {{"-pg"},
         "<pp,tg>",
         "a prompt and then tokens one by one, as one test",
         apply_prompt_then_generation},
        numbers({"-d", "--n-depth"}, "tokens already in the context (0)", &BenchOptions::depths,
                token_bounds),
        numbers({"-t", "--threads"}, "threads (all processors)", &BenchOptions::threads, {1, 1024}),
        numbers({"-b", "--batch-size"}, "rows of a prompt handed over at once (2048)",
                &BenchOptions::batch_rows, {1, 1 << 16}),
        numbers({"-ub", "--ubatch-size"}, "rows computed at once, if not fewer are handed over (512)",
                &BenchOptions::micro_batch_rows, {1, 1 << 16}),
        numbers({"-npl", "--npl", "--sequences", "--batch"},
                "sequences side by side; speeds are of all together (1)", &BenchOptions::sequences,
                {1, 1024}),
        numbers({"--step-rows"},
                "rows of one sequence computed in a step of decoding, as when drafts are verified (1)",
                &BenchOptions::step_rows, {1, 1024}),
        kv_types({"-ctk", "--cache-type-k"}, "type of the keys; must be that of the values",
                 &Parsed::key_types),
        kv_types({"-ctv", "--cache-type-v"}, "type of the values", &Parsed::value_types),
        {{"--kv-type"},
         "<type,...>",
         "type of keys and values: f32, f16, bf16 or q8 (f16; f32 with --compute f32)",
         [](Parsed& parsed, const std::string& text) {
             return append_kv_types(text, parsed.options.kv_types);
         }},
        {{"--compute"},
         "<mode>",
         "serve: as the server computes; f32: float32 activations (serve)",
         apply_compute},
        number({"-r", "--repetitions"}, "measured repetitions of each test (5)", &BenchOptions::repetitions,
               {1, 10000}),
        number({"--delay"}, "seconds between tests (0)", &BenchOptions::delay_seconds, {0, 3600}),
        flag({"--no-warmup"}, "measure at once", &BenchOptions::warm_up, false),
        flag({"--bandwidth"}, "after each repetition, measure how fast the same threads read memory",
             &BenchOptions::bandwidth, true),
        {{"-o", "--output"}, "<format>", "md, json, jsonl or csv (md)", apply_output},
        flag({"--progress"}, "say on standard error what is being measured", &BenchOptions::progress, true),
    };
    return table;
}

// Options of llama-bench without a meaning here. Values that ask for what happens anyway are taken.
struct Refused {
    std::vector<std::string> names;
    std::vector<std::string> harmless;
    bool takes_value;
    const char* reason;
};
const std::vector<Refused>& refused_table() {
    constexpr const char* no_gpu = "this program computes on CPUs only";
    constexpr const char* no_scheduling = "threads wait in a way of their own, and the system schedules them";
    static const std::vector<Refused> table = {
        {{"-ngl", "--n-gpu-layers"}, {"0"}, true, no_gpu},
        {{"-ncmoe", "--n-cpu-moe"}, {"0"}, true, no_gpu},
        {{"-sm", "--split-mode"}, {"none"}, true, no_gpu},
        {{"-mg", "--main-gpu"}, {}, true, no_gpu},
        {{"-nkvo", "--no-kv-offload"}, {"1"}, true, no_gpu},
        {{"-dev", "--device"}, {"none"}, true, no_gpu},
        {{"-ts", "--tensor-split"}, {}, true, no_gpu},
        {{"-nopo", "--no-op-offload"}, {"1"}, true, no_gpu},
        {{"-ot", "--override-tensor"}, {}, true, no_gpu},
        {{"-fitt", "--fit-target"}, {}, true, no_gpu},
        {{"-fitc", "--fit-ctx"}, {}, true, no_gpu},
        {{"--no-host"}, {"1"}, true, no_gpu},
        {{"--list-devices"}, {}, false, no_gpu},
        {{"-fa", "--flash-attn"}, {"1", "on", "auto"}, true, "attention is always computed block by block"},
        {{"-embd", "--embeddings"}, {"0"}, true, "embeddings are not implemented"},
        {{"-mmp", "--mmap"}, {"0"}, true, "weights are repacked into memory of their own"},
        {{"-lm", "--load-mode"}, {"auto", "none"}, true, "weights are repacked into memory of their own"},
        {{"-lzm", "--lazy-mode"}, {"auto", "off"}, true, "weights are repacked when the model is loaded"},
        {{"--repack"}, {"1"}, true, "weights are always repacked"},
        {{"--numa"}, {}, true, "memory is placed by whoever touches it first"},
        {{"--prio"}, {"0"}, true, no_scheduling},
        {{"--poll"}, {}, true, no_scheduling},
        {{"-C", "--cpu-mask"}, {"0x0"}, true, "use taskset: the processors of the process are respected"},
        {{"--cpu-strict"}, {"0"}, true, "use taskset: the processors of the process are respected"},
        {{"-hf", "-hfr", "--hf-repo"}, {}, true, "nothing is downloaded; -m names a file"},
        {{"-hff", "--hf-file"}, {}, true, "nothing is downloaded; -m names a file"},
        {{"-hft", "--hf-token"}, {}, true, "nothing is downloaded; -m names a file"},
        {{"--offline"}, {}, false, "nothing is downloaded; -m names a file"},
        {{"-oe", "--output-err"}, {"none"}, true, "results go to standard output only"},
        {{"-v", "--verbose"}, {}, false, "there is nothing more to say"},
    };
    return table;
}

bool has_name(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

template <class T>
void default_to(std::vector<T>& list, T value) {
    if (list.empty()) list.push_back(value);
}

Status finish(Parsed& parsed) {
    BenchOptions& options = parsed.options;
    if (options.help) return {};
    if (options.models.empty()) return Error{ErrorCode::invalid_argument, "-m is needed: the model's path"};
    if (parsed.key_types != parsed.value_types)
        return Error{
            ErrorCode::invalid_argument,
            "-ctk and -ctv must be given together with the same values: keys and values have one type here"};
    options.kv_types.insert(options.kv_types.end(), parsed.key_types.begin(), parsed.key_types.end());
    default_to(options.kv_types, default_kv_type(options.compute));
    default_to(options.prompts, 512);
    default_to(options.generations, 128);
    default_to(options.depths, 0);
    default_to(options.threads, available_processors());
    default_to(options.batch_rows, 2048);
    default_to(options.micro_batch_rows, 512);
    default_to(options.sequences, 1);
    default_to(options.step_rows, 1);
    return {};
}

}  // namespace

Result<BenchOptions> parse_bench_options(const std::vector<std::string>& arguments) {
    Parsed parsed;
    for (size_t i = 0; i < arguments.size(); ++i) {
        std::string name = arguments[i];
        std::optional<std::string> value;
        if (const size_t equal = name.find('='); name.starts_with("--") && equal != std::string::npos) {
            value = name.substr(equal + 1);
            name.resize(equal);
        }
        const auto take_value = [&]() -> Status {
            if (value) return {};
            if (i + 1 >= arguments.size()) return Error{ErrorCode::invalid_argument, name + " needs a value"};
            value = arguments[++i];
            return {};
        };
        const auto option = std::find_if(option_table().begin(), option_table().end(),
                                         [&](const Option& o) { return has_name(o.names, name); });
        if (option != option_table().end()) {
            if (!option->value && value) return Error{ErrorCode::invalid_argument, name + " takes no value"};
            if (option->value)
                if (Status status = take_value(); !status) return std::move(status).error();
            if (Status status = option->apply(parsed, value.value_or("")); !status)
                return Error{ErrorCode::invalid_argument, name + ": " + status.error().message};
            continue;
        }
        const auto refused = std::find_if(refused_table().begin(), refused_table().end(),
                                          [&](const Refused& r) { return has_name(r.names, name); });
        if (refused == refused_table().end())
            return Error{ErrorCode::invalid_argument,
                         "there is no option " + quote(name) + "; --help lists those there are"};
        if (refused->takes_value)
            if (Status status = take_value(); !status) return std::move(status).error();
        if (!value || !has_name(refused->harmless, *value))
            return Error{ErrorCode::unsupported,
                         name + (value ? " " + quote(*value) : "") + " is not supported: " + refused->reason};
    }
    if (Status status = finish(parsed); !status) return std::move(status).error();
    return std::move(parsed.options);
}

std::string bench_help() {
    std::string text =
        "Measure prefill and decode speed of models, without server and sampler\n"
        "Usage: deepinfer bench -m <path> [options]\n\n";
    for (const Option& option : option_table()) {
        std::string line = "  ";
        for (const std::string& name : option.names) line += (line.size() > 2 ? ", " : "") + name;
        if (option.value) line += std::string(" ") + option.value;
        line.resize(std::max<size_t>(line.size() + 2, 34), ' ');
        text += line + option.help + "\n";
    }
    return text +
           "\nLists are separated by commas, or the option is repeated; numbers may be ranges: 1-4, "
           "128-512+128, "
           "1-16*2.\n"
           "Every combination is measured: the prompts, the decoded tokens, then the pairs of -pg.\n";
}

}  // namespace deepinfer::cli
