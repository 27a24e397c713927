"""A whole file is searched for secrets first: this search must miss none that the search of each line finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchstack.series.lint.secrets import _suspicious, secrets_in
from tests.support.linting import KEY

LINES = st.sampled_from(
    [
        *("", "text", "the token count is 12", "key = value", 'name = "value"', "mask->ne[0]", "half_tile", KEY[:-1]),
        *(KEY, f"x{KEY}", f'id="{KEY}"', "PASSWORD: 'hunter22'", 'api_key := "abcdefgh"', 'apikey["x"] = "abcdefgh"'),
        *("-----BEGIN OPENSSH PRIVATE KEY-----", "ghp_" + "a1" * 20, "sk-" + "Z9" * 20, 'secret = "<placeholder>"'),
        *("hf_" + "b2" * 20, "hooks.slack.com/services/T0/B0/x", 'Token="aaaaaa"', 'auth_token="abc123x" # key'),
    ]
)


@given(st.lists(LINES, max_size=6), st.booleans())
def test_no_secret_is_overlooked_in_a_file_read_at_once(lines: list[str], ends: bool) -> None:
    data = "\n".join(lines).encode() + b"\n" * ends
    assert _suspicious(data) == any(True for line in lines for _ in secrets_in(line))
