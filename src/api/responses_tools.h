// The tools of the Responses protocol: functions, namespaces of functions, and a few that the client runs itself.
// Internal to the api layer: throws FieldError.
#pragma once

#include <string>
#include <vector>

#include "api/tools.h"

namespace deepinfer::api {

class ResponsesTools {
  public:
    explicit ResponsesTools(const ServiceRules& rules) : rules_(rules) {}

    void add(const boost::json::array& items, const std::string& path);
    // Tools that a search found: deferred ones. Appends the names that the model knows them by; gives what it is shown.
    std::string add_found(const boost::json::array& items, const std::string& path,
                          std::vector<std::string>& names);

    ToolWish parse_choice(const Fields& request) const;

    const std::vector<GivenTool>& given() const { return given_; }
    const ToolOrigins& origins() const { return origins_; }
    // The name that the model knows a function by, also of a tool that is no longer there.
    std::string model_name(const std::string& name_space, const std::string& name) const;

  private:
    struct NameSpace {
        std::string name, description;
    };
    GivenTool& add_function(const Fields& item, const NameSpace* name_space);
    void add_custom(const Fields& item);
    void add_namespace(const Fields& item);
    std::string joined(const std::string& name_space, const std::string& name) const;
    bool is_taken(const std::string& name) const;

    const ServiceRules& rules_;
    std::vector<GivenTool> given_;
    ToolOrigins origins_;
    bool deferred_ = false;                   // tools added now are
    std::vector<boost::json::object> shown_;  // what a search shows of them
};

}  // namespace deepinfer::api
