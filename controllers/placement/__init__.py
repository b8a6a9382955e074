"""Exclusive placement: watches leaders, lets their followers go after them, repairs what is misplaced."""
