"""What pytest loads for the tests and for the executed documentation."""

from pathlib import Path

from tests.support.docs import documentation

pytest_plugins = ["tests.support.fixtures"]
pytest_collect_file = documentation(Path(__file__).parent).pytest()
