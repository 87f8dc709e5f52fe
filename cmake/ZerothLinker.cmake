# SPDX-License-Identifier: Apache-2.0
# Programs are linked by lld where it is installed: some three hundred of them are, tests above all, and GNU ld takes three
# times as long for each. What nvcc links stays with the linker that it knows.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=lld ZEROTH_HAS_LLD)
if(ZEROTH_HAS_LLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()
