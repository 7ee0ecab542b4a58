"""What a grant unlocks: services of the provider (layer 5)."""
