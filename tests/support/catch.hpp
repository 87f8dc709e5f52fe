/// The one place that knows which Catch2 this is. Its assertions are not thread-safe: assert on the main thread.
#pragma once
#include <catch2/catch.hpp>
