"""Everything about clients: connections, sessions, subscriptions, delivery and confirmation."""
