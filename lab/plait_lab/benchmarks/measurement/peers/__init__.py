"""Live peers: two of them beside other systems, and twenty."""
