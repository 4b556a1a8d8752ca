"""What a lock guards cannot be touched without it: `make lint` finds it."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

SOURCE = """
#include "ops/core/base/mutex.h"
#include "ops/core/table/table_mutex.h"

namespace keras_sparse {

class Queue {
 public:
  void Add() {
    const MutexLock lock(mutex_);
    ++size_;
    const MutexUnlock unlock(mutex_);
    ++size_;  // refused
  }
  int size() const { return size_; }  // refused
  void Take() {
    Shrink();  // refused
    const MutexLock lock(mutex_);
    while (size_ == 0) added_.Wait(mutex_);
    Shrink();
  }
  void WaitForOne() {
    added_.Wait(mutex_);  // refused
  }

 private:
  void Shrink() REQUIRES(mutex_) { --size_; }

  mutable Mutex mutex_;
  ConditionVariable added_;
  int size_ GUARDED_BY(mutex_) = 0;
};

template <typename AnyMutex>
class Shared {
 public:
  int Read() {
    const SharedLock lock(mutex_);
    return value_;
  }
  void Write() {
    const SharedLock lock(mutex_);
    value_ = 1;  // refused
  }
  void WriteAlone() {
    const MutexLock lock(mutex_);
    value_ = 2;
  }
  void LockInAnotherOrder() {
    const MutexLock lock(mutex_);
    const MutexLock first(first_);  // refused
  }

 private:
  Mutex first_ ACQUIRED_BEFORE(mutex_);
  AnyMutex mutex_;
  int value_ GUARDED_BY(mutex_) = 0;
};

template class Shared<SharedMutex>;
template class Shared<TableMutex>;

}  // namespace keras_sparse
"""


def test_access_without_its_lock_is_refused(tmp_path):
    source = tmp_path / "source.cc"
    source.write_text(SOURCE)
    clang_tidy = pathlib.Path(sys.executable).with_name("clang-tidy")
    command = [clang_tidy, f"--config-file={ROOT / '.clang-tidy'}", source]
    command += ["--", "-std=c++17", f"-I{ROOT}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    found = re.findall(
        r"source\.cc:(\d+):.* error: .*\[clang-diagnostic-thread-safety", done.stdout
    )
    lines = enumerate(SOURCE.splitlines(), start=1)
    assert {*map(int, found)} == {n for n, line in lines if "// refused" in line}, done.stdout
