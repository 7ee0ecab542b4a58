"""The service `rack_affinity` (layer 5): servers and volumes together in a rack, or spread over several."""
