#!/bin/sh
# Makes sure that GoogleTest is there: installs Debian's package where no password is asked for,
# else says what to do.
set -eu

has_googletest() {
  echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -E -x c++ - > /dev/null 2>&1
}

has_googletest && exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  as_root="sudo -n"
fi
if command -v apt-get > /dev/null && $as_root true 2> /dev/null; then
  # A machine that never fetched its package lists needs them first.
  $as_root apt-get install -y -q libgtest-dev ||
    { $as_root apt-get update -q && $as_root apt-get install -y -q libgtest-dev; }
fi

has_googletest && exit 0
echo "The C++ tests need GoogleTest. On Debian and Ubuntu: sudo apt-get install libgtest-dev" >&2
exit 1
