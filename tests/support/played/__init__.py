"""Parts that tests play: other controllers, agents, users, crashes, recorded clients."""
