# SPDX-License-Identifier: Apache-2.0
# For tools/zeroth and examples/ as separate projects: finds the installed library, and sets up what the library's own
# project otherwise provides.
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
include(GNUInstallDirs)
include(ZerothWarnings)
include(ZerothDependency)
find_package(Zeroth REQUIRED)
zeroth_dependency(fmt TARGET fmt::fmt HEADER fmt/core.h DEFINITIONS FMT_HEADER_ONLY)
zeroth_dependency(nlohmann_json TARGET nlohmann_json::nlohmann_json HEADER nlohmann/json.hpp)
