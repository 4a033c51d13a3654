"""Figure 1 of the IncentFedAvg paper: MNIST, loss for several H and participation in the first game."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from fedrepro.presentation import participation

PAPER = "incentive"
ID = "fig1"
NEEDS = ("incentive_fig1", "incentive_fig1_game")


def data(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Loss curves over seeds, and the participation of the first seed."""
    losses = participation.losses(frames[NEEDS[0]])
    return pd.concat([losses, participation.contributions(frames[NEEDS[1]])], ignore_index=True)


def draw(data: pd.DataFrame) -> Figure:
    """A panel of losses per reading, then one of participation."""
    return participation.losses_and_contributions(data)
