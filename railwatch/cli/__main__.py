"""``python -m railwatch.cli``, where no script is installed."""

from railwatch.cli import main

main()
