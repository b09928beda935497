"""What pytest loads for the tests and for the executed documentation."""

from pathlib import Path

import hypothesis

from tests.support.docs import documentation

pytest_plugins = ["tests.support.fixtures"]
pytest_collect_file = documentation(Path(__file__).parent).pytest()

# How long examples take says how busy the machine is, and nothing about what is tested.
hypothesis.settings.register_profile(
    "threadbus", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("threadbus")
