#include "base/result.h"

namespace deepinfer {

const char* to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument:
            return "invalid argument";
        case ErrorCode::not_found:
            return "not found";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::corrupt_data:
            return "corrupt data";
        case ErrorCode::resource_exhausted:
            return "resource exhausted";
        case ErrorCode::cancelled:
            return "cancelled";
        case ErrorCode::deadline_exceeded:
            return "deadline exceeded";
        case ErrorCode::io_error:
            return "I/O error";
        case ErrorCode::internal:
            return "internal error";
    }
    return "unknown error";
}

}  // namespace deepinfer
