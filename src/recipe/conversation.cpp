#include "recipe/conversation.h"

namespace deepinfer::recipe {

const char* to_string(Role role) {
    switch (role) {
        case Role::system:
            return "system";
        case Role::developer:
            return "developer";
        case Role::user:
            return "user";
        case Role::assistant:
            return "assistant";
        case Role::tool:
            return "tool";
        case Role::latest_reminder:
            return "latest_reminder";
    }
    return "user";
}

const char* to_string(Effort effort) {
    switch (effort) {
        case Effort::low:
            return "low";
        case Effort::high:
            return "high";
        case Effort::xhigh:
            return "xhigh";
        case Effort::max:
            return "max";
    }
    return "high";
}

}  // namespace deepinfer::recipe
