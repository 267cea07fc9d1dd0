"""Why an event went where it did: beside the pipeline, never in its way."""
