"""Teams that ship with threadbus; each agent of a team is a service of its own."""
