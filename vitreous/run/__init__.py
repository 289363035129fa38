"""What a run is: its task, its folder, its provenance and its predictor."""
