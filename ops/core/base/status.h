// The outcome of a core call: ok, or a code and a message that a user can act on.
#ifndef KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_
#define KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_

#include <string>
#include <utility>

namespace keras_sparse {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument = 1,     // the caller passed something that no table would take
  kFailedPrecondition = 2,  // the call is fine, the table's state is not
  kResourceExhausted = 3,   // memory, disk or a documented limit ran out
  kDataLoss = 4,            // stored bytes are not what was written
  kUnimplemented = 5,       // a part that this build or version leaves out
};

// Messages say the rule, then the remedy when there is one, then what came.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
inline Status FailedPrecondition(std::string message) {
  return Status(StatusCode::kFailedPrecondition, std::move(message));
}
inline Status ResourceExhausted(std::string message) {
  return Status(StatusCode::kResourceExhausted, std::move(message));
}

}  // namespace keras_sparse

#define KERAS_SPARSE_RETURN_IF_ERROR(expression)          \
  do {                                                    \
    ::keras_sparse::Status status_of_call = (expression); \
    if (!status_of_call.ok()) return status_of_call;      \
  } while (false)

#endif  // KERAS_SPARSE_OPS_CORE_BASE_STATUS_H_
