"""Air showers of cosmic rays (S2.8)."""
