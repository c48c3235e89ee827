"""The generated parts of the reference of policies."""

import pytest

from railwatch.reference.policy import policy_markdown
from rules.conditions.facts import FACTS
from telemetry.quantities import EVIDENCE

BLOCKS = ("then", "cases", "facts", "evidence")
PAGE = "# Page\n\n" + "\n".join(f"<!-- generated: {name} -->\nold\n<!-- end -->\n" for name in BLOCKS) + "by hand\n"


def test_the_blocks_are_written_again_and_the_rest_stays() -> None:
    page = policy_markdown(PAGE)
    assert page.startswith("# Page\n")
    assert page.endswith("by hand\n")
    assert "old" not in page.splitlines()
    assert policy_markdown(page) == page
    assert all(f"| `{name}` |" in page for name in FACTS)
    assert all(f"`{name}`" in page for name in EVIDENCE)
    assert (
        "| `then.clock.hold_v` | number above 0 to 60 | "
        "keep the predicted worst dip above this voltage at 12 V, and above the same share of another rail |  |" in page
    )
    assert (
        "| `then.budget.actions` | whole number from 1 to 1000 | new actions of this policy within `per`; "
        "tightening a cap in force does not count |" in page
    )


@pytest.mark.parametrize("page", ["no block", PAGE.replace("generated: facts", "generated: fancies")])
def test_a_page_without_its_blocks_is_no_page_to_write(page: str) -> None:
    with pytest.raises(ValueError, match="the blocks cases, evidence, facts, then"):
        policy_markdown(page)
