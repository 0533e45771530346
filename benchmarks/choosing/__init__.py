"""Parts of choices.py: the planner's choices held against modelled times of all candidates."""
