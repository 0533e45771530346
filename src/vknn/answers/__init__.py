"""Answers that people can look at: boxes, keypoints, masks, pictures and labels of networks.

A :class:`Recipe` says what becomes of a picture before a network and what its outputs mean.
"""

from vknn.answers.answer import Answer, Found, Point, Score, Share
from vknn.answers.drawing import draw
from vknn.answers.labels import Labels
from vknn.answers.looking import decode, find_recipe, look
from vknn.answers.recipe import Recipe
from vknn.pictures import Placement

__all__ = [
    "Answer",
    "Found",
    "Labels",
    "Placement",
    "Point",
    "Recipe",
    "Score",
    "Share",
    "decode",
    "draw",
    "find_recipe",
    "look",
]
