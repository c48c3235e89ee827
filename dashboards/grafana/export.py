"""Every dashboard, and the files in which its JSON is kept in step with the code."""

import json
from pathlib import Path
from typing import Any

from dashboards.grafana.balance import NAME, balance_dashboard

# As seen from the root of the repository.
GENERATED_DIR = Path("dashboards/grafana/generated")


def build_dashboards() -> dict[str, dict[str, Any]]:
    """Return every dashboard's JSON by its name."""
    return {NAME: balance_dashboard()}


def generated_files() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    return {
        GENERATED_DIR / f"{name}.json": json.dumps(built, indent=2, ensure_ascii=False) + "\n"
        for name, built in build_dashboards().items()
    }
