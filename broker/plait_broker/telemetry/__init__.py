"""What a broker records of its pipeline, samples of itself, and publishes as its system stream."""
