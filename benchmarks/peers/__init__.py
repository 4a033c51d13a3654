"""Other frameworks on the benchmark's workload, each in an environment of its own."""

import os

# Read when the frameworks are imported: no usage statistics are sent anywhere.
os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
