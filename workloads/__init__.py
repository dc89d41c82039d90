"""What arrives: the seeded recipe for a list of requests (arrivals × prompts × lengths)."""
