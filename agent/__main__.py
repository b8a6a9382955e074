"""`python -m agent`."""

from agent.program import main

main()
