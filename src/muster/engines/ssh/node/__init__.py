"""The node side of the ssh engine: the supervisor's site with a link to each host, and the daemon of a node on its host."""
