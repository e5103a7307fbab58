# Every library comes from Debian. A missing one is named with the package that brings it.
find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "pkg-config is missing: apt-get install pkg-config")
endif()

function(muster_require_package name apt_package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is missing: apt-get install ${apt_package} "
                        "(scripts/install_packages.sh installs all that Muster needs)")
  endif()
endfunction()

function(muster_require_header header apt_package)
  find_path(MUSTER_HEADER_${apt_package} ${header})
  if(NOT MUSTER_HEADER_${apt_package})
    message(FATAL_ERROR "${header} is missing: apt-get install ${apt_package} "
                        "(scripts/install_packages.sh installs all that Muster needs)")
  endif()
endfunction()

muster_require_package(Threads libc6-dev)
muster_require_package(OpenSSL libssl-dev 3.0)
muster_require_package(ZLIB zlib1g-dev)
muster_require_package(nlohmann_json nlohmann-json3-dev 3.11 CONFIG)
muster_require_package(tl-expected libexpected-dev CONFIG)
muster_require_package(fmt libfmt-dev CONFIG)
muster_require_package(spdlog libspdlog-dev CONFIG)
muster_require_package(CLI11 libcli11-dev CONFIG)
muster_require_package(SQLiteCpp libsqlitecpp-dev CONFIG)
muster_require_package(SQLite3 libsqlite3-dev)
muster_require_header(asio.hpp libasio-dev)

pkg_check_modules(CPP_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
if(NOT CPP_HTTPLIB_FOUND)
  message(FATAL_ERROR "cpp-httplib is missing: apt-get install libcpp-httplib-dev "
                      "(scripts/install_packages.sh installs all that Muster needs)")
endif()

pkg_check_modules(ZSTD QUIET IMPORTED_TARGET libzstd)
if(NOT ZSTD_FOUND)
  message(FATAL_ERROR "zstd is missing: apt-get install libzstd-dev "
                      "(scripts/install_packages.sh installs all that Muster needs)")
endif()
