"""Who gets credit for what: the advantage of each step, and the weight of its loss terms in one optimizer step.

`rollouts` holds what is known about the steps of whole prompt groups. `trees` and `groups` are the two kinds of arithmetic,
along parent edges and within prompt groups. `rewards` makes one number of several rewards, `advantage` is what a user says about
advantages and `estimators` computes them; `weights` are those of the loss terms, and `assign` puts it together.
"""

from stepwell.reader._credit.advantage import Advantage, Estimator
from stepwell.reader._credit.assign import Credit, assign
from stepwell.reader._credit.rollouts import REWARD_LIMIT, Rollouts
from stepwell.reader._credit.weights import LossWeights, Reduction, gradient_factor

__all__ = [
    "REWARD_LIMIT",
    "Advantage",
    "Credit",
    "Estimator",
    "LossWeights",
    "Reduction",
    "Rollouts",
    "assign",
    "gradient_factor",
]
