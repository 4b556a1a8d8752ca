#!/bin/sh
# Makes sure that a C++ header is there: installs Debian's package of it where no password is asked
# for and SYSTEM_PACKAGES is not "no", and says so before; else says what to do, and fails.
#   tools/install_debian_package.sh PACKAGE HEADER WHAT_NEEDS_IT
set -eu
package=$1
header=$2
what=$3

has_header() {
  echo "#include <$header>" | "${CXX:-c++}" -E -x c++ - > /dev/null 2>&1
}

has_header && exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  as_root="sudo -n"
fi
may_install() {
  [ "${SYSTEM_PACKAGES:-yes}" != no ] && command -v apt-get > /dev/null && $as_root true 2> /dev/null
}

if may_install; then
  echo "$what needs <$header>: installing Debian's package $package on this system." \
    "SYSTEM_PACKAGES=no leaves it out." >&2
  # A machine that never fetched its package lists needs them first.
  $as_root apt-get install -y -q "$package" ||
    { $as_root apt-get update -q && $as_root apt-get install -y -q "$package"; } ||
    true
fi

has_header && exit 0
echo "$what needs <$header>. On Debian and Ubuntu: sudo apt-get install $package" >&2
exit 1
