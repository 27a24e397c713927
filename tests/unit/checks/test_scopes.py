"""The function that a line is in, compared with what `git grep -p` shows of C++."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.checks.model import NO_FUNCTION
from patchstack.checks.scopes import scope_at
from tests.support.builders import RepoBuilder

CPP = """\
#include "cache.h"

static int counter = HERE0;

// a comment at the left: not_a_function(
bool cache::find(
        const slot & where,
        int n) const {
    for (int i = 0; i < n; i++) {
        if (where.has(i,
                HERE1)) {
            return true;
        }
    }
#if defined(FAST)
    if (n > 1) {
#else
    if (n > 2) {
#endif
        HERE2;
    }
    return false;
}

HERE3;

cache::cache(const model & m) :
    size(m.size),
    HERE4(0) {
    auto run = [&](int n) {
        HERE5;
    };
}

namespace detail {

template <typename T>
static __global__ __launch_bounds__(256, 1) void kernel(const T * x) {
    HERE6;
}

struct context : public base {
public:
    HERE7;
    context(int a)
        : a(a) {
        HERE8;
    }

    void update(
        int first
    ) {
        switch (first) {
            case 1: HERE9;
        }
    }

    bool operator==(const context & other) const { return HERE10; }
};

}

static const char * const names[3] = {
    "HERE11",
};

enum op {
    HERE12,

    HERE13,
};

extern "C" {
int exported(void) {
    HERE14;
}
}

static struct entry * look_up(struct table * t)
{
    HERE15;
}

std::vector<std::pair<int, int>> cache::pairs() { HERE16; }
"""

SCOPES = [
    NO_FUNCTION,
    "cache::find",
    "cache::find",
    NO_FUNCTION,
    "cache::cache",
    "cache::cache",
    "kernel",
    "context",
    "context::context",
    "context::update",
    "context::operator==",
    "names",
    "op",
    "op",
    "exported",
    "look_up",
    "cache::pairs",
]


@pytest.mark.parametrize(("number", "scope"), list(enumerate(SCOPES)))
def test_the_function_around_a_line_is_named(number: int, scope: str) -> None:
    lines = CPP.split("\n")
    at = next(place for place, line in enumerate(lines) if re.search(rf"HERE{number}\b", line))
    assert scope_at(lines, at) == scope


def test_python_is_read_by_its_indentation() -> None:
    lines = ["class Cache:", "    def find(self):", "        if x:", "            HERE", "", "HERE", ""]
    assert scope_at(lines, 3) == "Cache::find"
    assert scope_at(lines, 5) == NO_FUNCTION


def test_a_head_in_the_first_column_is_the_one_that_git_shows(tmp_path: Path) -> None:
    """git shows the nearest head above, also after the end of its function; the two agree inside of functions."""
    repo = RepoBuilder(tmp_path / "repo")
    repo.commit("Begin", {"a.cpp": CPP, ".gitattributes": "*.cpp diff=cpp\n"})
    repo.git("config", "core.attributesFile", "/dev/null")
    (repo.path / ".gitattributes").write_text("*.cpp diff=cpp\n")
    shown = repo.git("grep", "-n", "-p", "HERE", "HEAD", "--", "a.cpp").splitlines()
    lines = CPP.split("\n")
    compared = 0
    head = ""
    for one in shown:
        found = re.match(r"HEAD:a\.cpp[:=](\d+)[:=](.*)", one)
        if found is None:
            continue
        if "=" in one[len("HEAD:a.cpp") : len("HEAD:a.cpp") + 1]:
            head = found[2]
            continue
        scope = scope_at(lines, int(found[1]) - 1)
        first = scope.partition("::")[0] if scope.startswith(("context", "op")) else scope
        if first != NO_FUNCTION and not lines[int(found[1]) - 1][:1].isalpha():
            assert first.split("::")[-1] in head, (one, scope, head)
            compared += 1
    assert compared >= 10


@given(st.text(alphabet="ab(){}:;,=[]<>~ \t\n#/*", max_size=300), st.integers(0, 50))
def test_any_text_has_an_answer(text: str, line: int) -> None:
    lines = text.split("\n")
    assert scope_at(lines, line % len(lines))


def test_a_huge_function_is_looked_through_quickly() -> None:
    lines = ["void f() {", *["    x();"] * 200_000, "    HERE;", "}"]
    assert scope_at(lines, len(lines) - 2) == "f"
