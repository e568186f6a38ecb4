"""What the environment says to this program."""

import os


def own_settings() -> dict[str, str]:
    """What was set for this program on this machine, to hold on others too."""
    return {name: value for name, value in os.environ.items() if name.startswith("COEVOLVE_")}
