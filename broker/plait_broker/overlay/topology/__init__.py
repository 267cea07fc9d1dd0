"""The shared picture of the overlay: flooded documents, link states, next hops, source routes and membership."""
