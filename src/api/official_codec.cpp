#include "api/official_codec.h"

#include <exception>

namespace deepinfer::api {
namespace {

OfficialRequest read(const OfficialService& service, Protocol protocol, std::string_view body) {
    const boost::json::object object = parse_body(body);
    const Fields request(object, "");
    const std::optional<std::string> model = request.string("model");
    if (!model) fail_missing("model");
    const auto served = service.models.find(*model);
    if (served == service.models.end()) {
        std::string names;
        for (const auto& [name, wording] : service.models)
            names.append(names.empty() ? "" : ", ").append(name);
        fail("model", "There is no model " + in_quotes(*model) + "; there are " + names + ".",
             "unknown_model");
    }
    OfficialRequest result;
    ServiceRules rules = service.rules;
    result.wording = rules.wording = served->second;
    const auto convert = protocol == Protocol::chat        ? convert_chat
                         : protocol == Protocol::responses ? convert_responses
                                                           : convert_messages;
    result.converted = convert(request, rules);
    result.options = official_options(protocol, request, result.converted, rules);
    result.stream = request.boolean("stream").value_or(false);
    const auto version = rules.is_v41() ? recipe::DeepSeekVersion::v41 : recipe::DeepSeekVersion::v4;
    result.prompt = recipe::DeepSeekFormat(version, service.marks).render(result.converted.conversation);
    return result;
}

}  // namespace

Outcome<OfficialRequest> read_official_request(const OfficialService& service, Protocol protocol,
                                               std::string_view body) {
    try {
        return read(service, protocol, body);
    } catch (const FieldError& error) {
        return error.error;
    } catch (const std::exception& error) {
        return internal_error(error.what());
    }
}

}  // namespace deepinfer::api
