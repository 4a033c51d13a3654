"""Reproducible experiments on federated averaging under client unavailability."""

__version__ = "0.1.0"
