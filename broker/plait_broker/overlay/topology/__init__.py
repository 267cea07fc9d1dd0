"""What all brokers know of the overlay: links with their delays, flooded documents, next hops, and which brokers are
gone."""
