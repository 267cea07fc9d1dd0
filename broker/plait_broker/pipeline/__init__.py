"""One event, in order: publish, admit, match, destinations, disseminate, deliver."""
